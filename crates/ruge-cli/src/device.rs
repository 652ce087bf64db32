//! `--device`, for every command that computes with a model.

use clap::{Args, ValueEnum};
use ruge::DeviceName;

/// Where to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// CPU
    Cpu,
    /// The first NVIDIA GPU; needs its driver and the CUDA 13 run-time libraries
    Cuda,
}

impl From<DeviceArg> for DeviceName {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Cpu => DeviceName::Cpu,
            DeviceArg::Cuda => DeviceName::Cuda,
        }
    }
}

/// The flag of commands that load a model.
#[derive(Debug, Clone, Copy, Args)]
pub struct DeviceArgs {
    /// Device
    #[arg(long, value_enum, value_name = "DEVICE", default_value_t = DeviceArg::Cpu)]
    device: DeviceArg,
}

impl Default for DeviceArgs {
    fn default() -> Self {
        Self { device: DeviceArg::Cpu }
    }
}

impl DeviceArgs {
    /// As specs name it.
    pub fn name(self) -> DeviceName {
        self.device.into()
    }
}
