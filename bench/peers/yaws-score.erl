-module(score).
-export([out/1]).
out(A) ->
  X = case yaws_api:queryvar(A, "x") of {ok, V} -> list_to_integer(V); _ -> 0 end,
  [{status, 200}, {content, "application/json", io_lib:format("{\"score\":~w}", [X * 2 + 1])}].
