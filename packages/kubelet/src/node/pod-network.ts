import { Backoff } from '@oarlock/client/backoff';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { NetworkDriver } from '@oarlock/spi/network';
import type { KubeletContext, PodRuntime } from '../node-context.ts';
import type { NodeAgent } from './node-agent.ts';
import { NodeNetworkSetup, type Held } from './node-network.ts';
import type { Situation } from './situation.ts';

export interface PodNetworkOptions {
  readonly context: Pick<KubeletContext, 'clock' | 'log' | 'random' | 'signal'>;
  readonly network: NetworkDriver;
  readonly nodeName: string;
  readonly facts: ClusterFacts;
  readonly addresses: readonly string[];
  readonly runtimes: () => Iterable<PodRuntime>;
  readonly situation: () => Pick<Situation, 'networkDone' | 'refresh' | 'current'> | undefined;
  readonly agents: ReadonlyMap<string, { readonly pods: Pick<NodeAgent['pods'], 'wakeAll'>; report(): Promise<void> }>;
  /** What the kubelet found of its own when it began. */
  readonly ours: readonly Held[];
}

/** The network of the pods of this process: set up by its plugin, and waited for until runtimes see it. */
export function podNetwork(options: PodNetworkOptions): NodeNetworkSetup {
  const { context, network, nodeName, facts, addresses, ours } = options;
  const { clock, log, random, signal } = context;
  return new NodeNetworkSetup({
    network,
    nodeName,
    facts,
    addresses,
    clock,
    log,
    random,
    signal,
    held: (call) => (network.traits.namespace === 'node' ? Promise.resolve(ours) : sandboxes(options, call)),
    ready: () => isReady(options),
  });
}

/** Every sandbox there is, as the runtimes connect them: other kubelets may share a runtime and its network. */
async function sandboxes({ runtimes }: PodNetworkOptions, signal: AbortSignal): Promise<readonly Held[]> {
  const lists = await Promise.all([...runtimes()].map(({ hub }) => hub.driver.listPodSandbox({}, { signal })));
  return lists.flat().map(({ id }) => ({ containerId: id, ifName: 'eth0' }));
}

/** The plugin is set up; the runtime may take a moment to see it. */
async function isReady({ context: { clock, log, signal }, situation: current, agents }: PodNetworkOptions): Promise<void> {
  const situation = current();
  if (!situation) return;
  situation.networkDone();
  const backoff = new Backoff({ firstMs: 20, longestMs: 1000, jitter: 0, random: () => 0 });
  while (!situation.current.networkReady) {
    try {
      await situation.refresh();
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, "the node's state could not be looked at");
    }
    if (signal.aborted) return;
    if (!situation.current.networkReady) await clock.sleep(backoff.next(), signal).catch(() => undefined);
  }
  for (const agent of agents.values()) {
    agent.pods.wakeAll();
    void agent.report();
  }
}
