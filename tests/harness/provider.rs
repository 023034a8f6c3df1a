//! A scripted provider.
