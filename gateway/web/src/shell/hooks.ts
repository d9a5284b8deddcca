import { useEffect, useState } from "preact/hooks";

import { endIfRefused } from "../account/session.ts";
import { serverNow } from "../api/clock.ts";

/** The server's time, read again every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  reload: () => void;
}

/** What `load` brings, again whenever `key` changes; an answer that comes too late is dropped. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, key: string): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown }>({
    key,
    value: null,
    error: null,
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const run = new AbortController();
    load(run.signal).then(
      (value) => !run.signal.aborted && setState({ key, value, error: null }),
      (error: unknown) => {
        if (run.signal.aborted || endIfRefused(error)) return;
        setState({ key, value: null, error });
      },
    );
    return () => run.abort();
  }, [key, turn]);
  const current = state.key === key ? state : { value: null, error: null };
  return { value: current.value, error: current.error, reload: () => setTurn(turn + 1) };
}
