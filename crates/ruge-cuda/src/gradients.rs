//! Gradient tables, for parameters in another basis than the scored rows and for caps on whole matrices.

use crate::device::{Buffer, Device};
use crate::error::Result;
use crate::model::Tables;
use crate::order::Pair;
use crate::source::Constants;

/// Gradient tables, used if rows cannot be updated directly.
pub(crate) struct Gradients {
    pub entities: Buffer<f32>,
    pub relations: Buffer<f32>,
    /// In the parameters' basis, if that differs.
    entity_parameters: Option<Buffer<f32>>,
    relation_parameters: Option<Buffer<f32>>,
    pub occurrences: Buffer<Pair>,
    pub squares: Buffer<f32>,
    pub factors: Buffer<f32>,
}

impl Gradients {
    /// Tables for a model; `most` rows of entities and of relations per batch.
    pub fn new(device: &Device, tables: &Tables, constants: &Constants, most: [usize; 2]) -> Result<Self> {
        let (entities, relations) = (tables.entity_rows, tables.relation_rows);
        let other = |rows: usize, stride: usize| match tables.transform {
            Some(_) => device.zeros(rows * stride).map(Some),
            None => Ok(None),
        };
        Ok(Self {
            entities: device.zeros(entities * constants.entities.stride)?,
            relations: device.zeros(relations * constants.relations.stride)?,
            entity_parameters: other(entities, constants.entity_parameters.stride)?,
            relation_parameters: other(relations, constants.relation_parameters.stride)?,
            occurrences: device.zeros(most[0])?,
            squares: device.zeros(2 * (most[0] + most[1]))?,
            factors: device.zeros(4)?,
        })
    }

    /// Maps gradients to the parameters' basis, if that differs.
    pub fn turn(&mut self, device: &Device, tables: &Tables) -> Result<()> {
        let Some(transform) = &tables.transform else { return Ok(()) };
        let pairs = [
            (&self.entities, &mut self.entity_parameters, &transform.entities, tables.entity_rows),
            (&self.relations, &mut self.relation_parameters, &transform.relations, tables.relation_rows),
        ];
        for (images, parameters, matrix, rows) in pairs {
            let Some(parameters) = parameters else { continue };
            // SAFETY: both tables have `rows` rows with the strides of the matrix.
            unsafe { matrix.back(device, images.address, parameters.address, rows) }?;
        }
        Ok(())
    }

    /// Addresses of the gradients by parameters.
    pub fn of_parameters(&self) -> (u64, u64) {
        let address =
            |own: &Buffer<f32>, other: &Option<Buffer<f32>>| other.as_ref().map_or(own.address, |x| x.address);
        (address(&self.entities, &self.entity_parameters), address(&self.relations, &self.relation_parameters))
    }
}
