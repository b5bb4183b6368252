//! Subscribers of frames at this node, as an output of the node: `[frames]` adds it, and `services::cameras`
//! serves it.

use tidegate_types::units::Size;

use super::kind::{Below, Driver, OutputKind, Surroundings};

/// See the file's header; its keys are those of `[frames]`.
#[derive(Debug)]
pub(super) struct Frames;

impl OutputKind for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn destination(&self) -> String {
        "[frames] listen".into()
    }

    fn confirms(&self) -> &'static str {
        "when this node has handed it to who watches: nothing is kept"
    }

    fn below(&self) -> Below {
        Below::Nothing
    }

    fn overhead(&self) -> Size {
        Size::ZERO
    }

    fn build(&self, _: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        anyhow::bail!("subscribers of frames come by [frames]")
    }
}
