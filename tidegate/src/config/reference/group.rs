//! `[group]` and `[[placed]]` in the reference.

use crate::keys::reference::File;

/// The sections: commented, for a group has members.
pub(super) fn group(file: &mut File) {
    file.commented_section(
        "[group]",
        "Nodes that are one broker for placed topics: each takes publishes and serves subscribers, one owns a\n\
         topic and works on it, and topics move among them (docs/MOVES.md). The same members and topics at all.",
    );
    file.note("listen", "\"0.0.0.0:7446\"", "Where the other members dial. Required.");
    file.note(
        "members",
        "[{ name = \"gate-8\", address = \"gate-8.example:7446\", clients = \"gate-8.example:1883\" }]",
        "The other members, by [node] name and [group] listen; clients is what MQTT 5 publishers are told to use\n\
         when their topics are there. Required but for that.",
    );
    file.note(
        "state",
        "\"/var/lib/tidegate/group\"",
        "File in which it is remembered who owns what. Default: nowhere; then the others tell after a restart.",
    );
    file.note(
        "ca",
        "\"/etc/tidegate/pki/ca.pem\"",
        "Authorities of all certificates. Default: that of [fleet], as for the next two. A group on one machine\n\
         needs none.",
    );
    file.note(
        "certificate",
        "\"/etc/tidegate/pki/gate-7.pem\"",
        "The certificate of this node; its common name is the node's name.",
    );
    file.note("key", "\"/etc/tidegate/pki/gate-7.key\"", "Its private key.");
    file.commented_section("[[placed]]", "Topics that move together among the members of [group].");
    file.note("name", "\"taxi-7\"", "By which `tidegate move` and plans know them. Required.");
    file.note(
        "topics",
        "[\"taxi/gps/7\", \"taxi/update/7\"]",
        "Filters of what operators read and of what they write. Required.",
    );
    file.note("owner", "\"gate-7\"", "Which node owns them at first. Required.");
}
