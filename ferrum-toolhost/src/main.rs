//! Which role: the first argument says it, and nothing else does.

fn main() {
    let role = std::env::args().nth(1);
    match role.as_deref() {
        Some("launcher") => ferrum_toolhost::launcher::run(),
        Some("host") => ferrum_toolhost::host::run(),
        Some("check") => ferrum_toolhost::check::run(),
        Some("probe") => ferrum_toolhost::prober::run(),
        Some("--version") => ferrum_toolhost::print_version(),
        _ => ferrum_toolhost::refuse_to_start(),
    }
}
