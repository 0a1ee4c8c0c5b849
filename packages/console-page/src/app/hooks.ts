import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import type { KubeObject, RequestOptions } from '../api/client.ts';
import { ObjectStore, type ObjectStoreOptions } from '../api/object-store.ts';
import { repeatUnanswered } from '../api/repeat-unanswered.ts';
import { useApp } from './context.ts';
import { paintSchedule } from './paint-schedule.ts';

interface Store {
  start(): () => void;
  subscribe(listener: () => void): () => void;
}

/** Creates a store for as long as the key is the same and the component is mounted, and renders the component when the store changes. */
export function useStore<S extends Store>(key: string, create: () => S): S {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const store = useMemo(create, [key]);
  useEffect(() => {
    const unsubscribe = store.subscribe(() => render(undefined));
    const stop = store.start();
    return () => {
      unsubscribe();
      stop();
    };
  }, [store]);
  return store;
}

/** Follows the objects of a collection. An empty path follows nothing. */
export function useObjects<T extends KubeObject = KubeObject>(
  path: string,
  query?: RequestOptions['query'],
  bounds: Pick<ObjectStoreOptions, 'maxObjects'> = {},
): ObjectStore<T> {
  const { client } = useApp();
  const key = `${path}?${JSON.stringify(query ?? {})}${client.impersonation?.user ?? ''}`;
  return useStore(key, () => {
    const store = new ObjectStore<T>({ client, path, ...(query && { query }), ...bounds, schedule: paintSchedule() });
    return path === '' ? Object.assign(store, { start: () => () => undefined, hasSynced: true, state: 'live' as const }) : store;
  });
}

export interface Loaded<T> {
  readonly value?: T;
  readonly error?: unknown;
  readonly isLoading: boolean;
  reload(): void;
}

/** Loads a value when the key changes, again if the server did not answer. */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({ isLoading: true });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((last) => ({ ...last, isLoading: true }));
    repeatUnanswered(() => load(abort.signal), abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ value, isLoading: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setState({ error, isLoading: false });
      },
    );
    return () => abort.abort();
  }, [key, attempt]);
  return { ...state, reload: () => setAttempt((count) => count + 1) };
}

/** Renders the component at this interval, for ages. */
export function useClock(intervalMs = 10_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

/** Returns a function whose identity never changes and that calls the latest version. */
export function useLatest<A extends readonly unknown[], R>(work: (...args: A) => R): (...args: A) => R {
  const latest = useRef(work);
  latest.current = work;
  return useMemo(
    () =>
      (...args: A) =>
        latest.current(...args),
    [],
  );
}

/** Discovers the resources again when the key changes, if the component needs the newest ones. */
export function useNewestResources(key: string, isNeeded = true): void {
  const { refreshResources } = useApp();
  useEffect(() => {
    if (isNeeded) refreshResources();
  }, [key]);
}

/** Counts the periods in which the page was visible, for values that the server offers no watch of. */
export function useVisiblePeriods(periodMs: number): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setCount((last) => last + 1);
    }, periodMs);
    return () => clearInterval(timer);
  }, [periodMs]);
  return count;
}
