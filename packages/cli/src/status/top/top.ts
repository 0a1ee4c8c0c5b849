import { nodes, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { systemClock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { clusterAccess, withCluster, type LimitedAccessOptions } from '../../common/cluster-access.ts';
import { printFacts, type OutputFormat } from '../../common/output.ts';
import { progress } from '../../common/progress/progress.ts';
import { readControlPlane } from './control-plane.ts';
import { liveTop, type Terminal } from './live-top.ts';
import { topFacts, type TopFacts } from './top-facts.ts';
import { formatTop, sorted, type SortKey } from './top-tables.ts';
import { readUsage } from './usage.ts';

export interface TopOptions extends LimitedAccessOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly sort: SortKey;
  /** Seconds between two reads of figures that have no watch. */
  readonly interval: number;
  readonly output: OutputFormat;
}

/** Shows nodes, pods and the control plane: live in a terminal, once for other output. */
export async function top(options: TopOptions): Promise<void> {
  if (options.output !== 'text' || !process.stdout.isTTY || !process.stdin.isTTY) {
    const facts = await withCluster(options, ({ client }) => readTop(client, options));
    return printFacts(options.output, facts, formatTop);
  }
  const nodesMissing = await withCluster(options, ({ client }) => whyNoNodes(client));
  progress.stop();
  const access = await clusterAccess(options);
  try {
    await runLive(access.client, options, nodesMissing);
  } finally {
    access.close();
  }
}

async function readTop(client: Client, { namespace, sort }: TopOptions): Promise<TopFacts> {
  const [nodesMissing, podList, usage, controlPlane] = await Promise.all([
    whyNoNodes(client),
    client.list<Pod>(pods, namespace === undefined ? {} : { namespace }),
    readUsage(client, namespace),
    readControlPlane(client),
  ]);
  const nodeItems = nodesMissing === undefined ? (await client.list<Node>(nodes)).items : [];
  const facts = topFacts({ nodes: nodeItems, pods: podList.items, usage, controlPlane, nodesMissing });
  return { ...facts, nodes: sorted(facts.nodes, sort), pods: sorted(facts.pods, sort) };
}

/** Returns why the user may not list nodes, for instance a user of one namespace; undefined if the user may. */
async function whyNoNodes(client: Client): Promise<string | undefined> {
  try {
    await client.raw('GET', '/api/v1/nodes?limit=1');
    return undefined;
  } catch (error) {
    if (isStatus(error, 'Forbidden')) return error.message;
    throw error;
  }
}

async function runLive(client: Client, { namespace, sort, interval }: TopOptions, nodesMissing: string | undefined): Promise<void> {
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
      ...{ client, informers, sort, nodesMissing, clock: systemClock, signal: interrupted.signal },
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
