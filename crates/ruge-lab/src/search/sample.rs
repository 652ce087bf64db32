//! Which point to try next.
//!
//! Every method is a pure function of the space and of the trials so far: nothing is advanced, so nothing is lost when a
//! search is killed. No point is tried twice; where a finite space is used up there is none left.

use ruge_kg::random::{Stream, draw, unit};

use super::space::{Method, Point, Space};
use super::{Trial, tpe};

/// Points by chance.
const POINTS: Stream = Stream(0x801);
/// The scrambling of the Sobol sequence.
const SCRAMBLE: Stream = Stream(0x802);

/// The length of the Sobol sequence, and of the search for a new point.
const SEQUENCE: u32 = 1 << 16;

/// The point to try after these trials; `None` where all have been tried.
pub fn propose(space: &Space, trials: &[Trial]) -> Option<Point> {
    match space.settings.method {
        Method::Grid => space.grid().into_iter().nth(trials.len()),
        Method::Random => first_new(trials, |at| by_chance(space, at)),
        Method::Sobol => evenly(space, trials),
        // What it would choose may all have been tried, in a small space.
        Method::Tpe => tpe::propose(space, trials).or_else(|| evenly(space, trials)),
    }
}

/// The first point of the Sobol sequence that was not tried.
pub(super) fn evenly(space: &Space, trials: &[Trial]) -> Option<Point> {
    first_new(trials, |at| sobol(space, at))
}

fn first_new(trials: &[Trial], point: impl Fn(u32) -> Point) -> Option<Point> {
    (0..SEQUENCE).map(point).find(|point| is_new(trials, point))
}

/// Whether a point was not tried.
pub(super) fn is_new(trials: &[Trial], point: &Point) -> bool {
    trials.iter().all(|trial| trial.point != *point)
}

fn by_chance(space: &Space, at: u32) -> Point {
    let place = |leaf: usize| unit(draw(space.settings.seed, POINTS, u64::from(at), leaf as u64));
    let units: Vec<f64> = (0..space.parameters.len()).map(place).collect();
    space.point(&units)
}

fn sobol(space: &Space, at: u32) -> Point {
    let dimensions = sobol_burley::NUM_DIMENSIONS as usize;
    let place = |leaf: usize| {
        // Beyond its dimensions the sequence is scrambled anew.
        let (set, dimension) = (leaf / dimensions, leaf % dimensions);
        let seed = draw(space.settings.seed, SCRAMBLE, 0, set as u64) as u32;
        f64::from(sobol_burley::sample(at, dimension as u32, seed))
    };
    let units: Vec<f64> = (0..space.parameters.len()).map(place).collect();
    space.point(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(method: &str, seed: u64) -> Space {
        let text = format!(
            "[model]\nname = [\"complex\", \"distmult\", \"hole\", \"rotate\"]\n[optimizer]\n\
             entity-rate = {{ low = 0.001, high = 10.0, scale = \"log\" }}\nrelation-rate = {{ low = 0.0, high = 1.0 }}\n\
             [search]\nmethod = \"{method}\"\nseed = {seed}\n"
        );
        Space::parse(&text, "x", None).unwrap()
    }

    fn points(space: &Space, count: usize) -> Vec<Point> {
        let mut trials = Vec::new();
        while trials.len() < count
            && let Some(point) = propose(space, &trials)
        {
            trials.push(Trial::new(trials.len() + 1, point));
        }
        trials.into_iter().map(|trial| trial.point).collect()
    }

    /// How many of 4 × 4 equal fields of the two rates hold a point.
    fn fields(points: &[Point]) -> usize {
        let field = |point: &Point| {
            let (rate, other) = (point[1].as_float().unwrap(), point[2].as_float().unwrap());
            // Four decades, four fields: even on the logarithmic scale.
            (((rate / 0.001).log10() * 0.999) as usize, (other * 3.999) as usize)
        };
        points.iter().map(field).collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn samplers_cover_the_space() {
        for seed in 0..20 {
            let even = points(&space("sobol", seed), 32);
            for name in ["complex", "distmult", "hole", "rotate"] {
                let count = even.iter().filter(|point| point[0].as_str() == Some(name)).count();
                assert_eq!(count, 8, "every choice equally often");
            }
            assert!(fields(&even[..16]) >= 12, "16 points in 16 fields: {seed}");
            assert_eq!(fields(&even), 16, "32 points leave no field empty: {seed}");
            assert!(fields(&points(&space("random", seed), 200)) >= 15);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_points_and_another_does_not() {
        for method in ["random", "sobol", "tpe"] {
            assert_eq!(points(&space(method, 3), 12), points(&space(method, 3), 12));
            assert_ne!(points(&space(method, 3), 12), points(&space(method, 4), 12), "{method}");
        }
    }

    #[test]
    fn small_spaces_are_tried_whole_and_once() {
        for method in ["grid", "random", "sobol", "tpe"] {
            let text = format!(
                "seed = [1, 2, 3]\nmodel.dimension = {{ low = 2, high = 8, step = 2 }}\n[search]\nmethod = \"{method}\""
            );
            let space = Space::parse(&text, "x", None).unwrap();
            let found = points(&space, 100);
            assert_eq!(found.len(), 12, "{method}");
            let all: std::collections::BTreeSet<String> = found.iter().map(|point| format!("{point:?}")).collect();
            assert_eq!(all.len(), 12, "{method}");
            assert_eq!(space.trials(), 12);
        }
    }

    #[test]
    fn many_leaves_are_no_fewer_than_the_sequence_has() {
        let leaves = sobol_burley::NUM_DIMENSIONS as usize;
        let sample = |leaf: usize| sobol_burley::sample(3, (leaf % leaves) as u32, (leaf / leaves) as u32);
        assert_ne!(sample(0), sample(leaves), "scrambled anew");
    }
}
