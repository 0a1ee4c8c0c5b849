import { nodes, pods } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { systemClock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { clusterAccess, type AccessOptions } from '../../common/cluster-access.ts';
import { printFacts, type OutputFormat } from '../../common/output.ts';
import { readControlPlane } from './control-plane.ts';
import { liveTop, type Terminal } from './live-top.ts';
import { topFacts, type TopFacts } from './top-facts.ts';
import { formatTop, sorted, type SortKey } from './top-tables.ts';
import { readUsage } from './usage.ts';

export interface TopOptions extends AccessOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly sort: SortKey;
  /** Seconds between two reads of figures that have no watch. */
  readonly interval: number;
  readonly output: OutputFormat;
}

/** Shows nodes, pods and the control plane: live in a terminal, once for other output. */
export async function top(options: TopOptions): Promise<void> {
  const access = await clusterAccess(options);
  try {
    const { client } = access;
    if (options.output !== 'text' || !process.stdout.isTTY || !process.stdin.isTTY)
      return await printFacts(options.output, await readTop(client, options), formatTop);
    await runLive(client, options);
  } finally {
    access.close();
  }
}

async function readTop(client: Client, { namespace, sort }: TopOptions): Promise<TopFacts> {
  const [nodeList, podList, usage, controlPlane] = await Promise.all([
    client.list<Node>(nodes),
    client.list<Pod>(pods, namespace === undefined ? {} : { namespace }),
    readUsage(client, namespace),
    readControlPlane(client),
  ]);
  const facts = topFacts({ nodes: nodeList.items, pods: podList.items, usage, controlPlane });
  return { ...facts, nodes: sorted(facts.nodes, sort), pods: sorted(facts.pods, sort) };
}

async function runLive(client: Client, { namespace, sort, interval }: TopOptions): Promise<void> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupt);
  const informers = new SharedInformerFactory({ client });
  const { stdin } = process;
  stdin.setRawMode(true);
  stdin.setEncoding('utf8');
  stdin.resume();
  try {
    const end = liveTop({
      ...{ client, informers, sort, clock: systemClock, signal: interrupted.signal },
      terminal: processTerminal(),
      intervalMs: interval * 1000,
      ...(namespace !== undefined && { namespace }),
    });
    informers.start();
    await end;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupt);
    await informers.stop();
  }
}

function processTerminal(): Terminal {
  const { stdin, stdout } = process;
  return {
    size: () => ({ columns: stdout.columns, rows: stdout.rows }),
    write: (text) => void stdout.write(text),
    onKey(listener) {
      stdin.on('data', listener);
      return () => stdin.off('data', listener);
    },
    onResize(listener) {
      stdout.on('resize', listener);
      return () => stdout.off('resize', listener);
    },
  };
}
