-module(fixed).
-export([out/1]).
out(_) -> [{status, 200}, {content, "text/plain", <<"hello, world\n">>}].
