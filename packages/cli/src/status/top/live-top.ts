import { nodes, pods } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client, Informers } from '@oarlock/spi/client';
import { readControlPlane, type ControlPlaneFacts } from './control-plane.ts';
import { topFacts } from './top-facts.ts';
import { pressKey, screenLines, type ScreenSize, type ScreenState } from './top-screen.ts';
import type { SortKey } from './top-tables.ts';
import { noUsage, readUsage, type UsageSnapshot } from './usage.ts';

/** A terminal in raw mode. */
export interface Terminal {
  size(): ScreenSize;
  write(text: string): void;
  /** Calls the listener with each key. Returns a function that ends this. */
  onKey(listener: (key: string) => void): () => void;
  onResize(listener: () => void): () => void;
}

export interface LiveTopOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly namespace?: string;
  /** Why nodes cannot be followed, if they cannot. */
  readonly nodesMissing?: string | undefined;
  readonly sort: SortKey;
  /** Time between two reads of figures that have no watch. */
  readonly intervalMs: number;
  readonly signal: AbortSignal;
}

/** Changes within this time are drawn together. */
const drawDelayMs = 200;
const enter = '\u001B[?1049h\u001B[?25l';
const leave = '\u001B[?25h\u001B[?1049l';

/** Shows the tables until the user quits or the signal aborts. Nodes and pods are watched; figures without a watch are read at an interval. */
export async function liveTop({
  client,
  informers,
  terminal,
  clock,
  namespace,
  nodesMissing,
  sort,
  intervalMs,
  signal,
}: LiveTopOptions): Promise<void> {
  const nodeInformer = nodesMissing === undefined ? informers.forResource<Node>(nodes) : undefined;
  const podInformer = informers.forResource<Pod>(pods, namespace === undefined ? {} : { namespace });
  const quit = new AbortController();
  const ended = AbortSignal.any([signal, quit.signal]);
  let state: ScreenState = { view: 'pods', sort, offset: 0 };
  let usage: UsageSnapshot = noUsage;
  let controlPlane: ControlPlaneFacts = { ready: false, failedChecks: [] };
  let scheduled: Timer | undefined;
  const draw = () => {
    scheduled = undefined;
    const facts = topFacts({ nodes: nodeInformer?.list() ?? [], pods: podInformer.list(), usage, controlPlane, nodesMissing });
    terminal.write(`\u001B[H${screenLines(facts, state, terminal.size()).join('\u001B[K\r\n')}\u001B[K\u001B[J`);
  };
  const changed = () => {
    scheduled ??= clock.after(drawDelayMs, draw);
  };
  const read = async () => {
    while (!ended.aborted) {
      try {
        [usage, controlPlane] = await Promise.all([readUsage(client, namespace, ended), readControlPlane(client, ended)]);
      } catch (error) {
        controlPlane = { ready: false, failedChecks: [errorText(error)] };
      }
      changed();
      await clock.sleep(intervalMs, ended).catch(() => undefined); // ends the loop
    }
  };
  const handler = { onAdd: changed, onUpdate: changed, onDelete: changed };
  const cleanups = [
    ...(nodeInformer === undefined ? [] : [nodeInformer.addEventHandler(handler)]),
    podInformer.addEventHandler(handler),
    terminal.onResize(changed),
    terminal.onKey((key) => {
      const next = pressKey(state, key, terminal.size());
      if (next === undefined) return quit.abort();
      state = next;
      draw();
    }),
  ];
  terminal.write(enter);
  try {
    draw();
    await read();
  } finally {
    scheduled?.cancel();
    for (const cleanup of cleanups) cleanup();
    terminal.write(leave);
  }
}
