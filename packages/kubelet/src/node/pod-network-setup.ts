import { Backoff } from '@oarlock/primitives/backoff';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { podInterface, type NetworkDriver } from '@oarlock/spi/network';
import type { ProcessContext, PodRuntime } from '../pod/node-context.ts';
import type { NodeAgent } from './node-agent.ts';
import { NodeNetworkSetup, type HeldAttachment } from './node-network.ts';
import type { NodeStateManager } from './node-state-manager.ts';

export interface PodNetworkOptions {
  readonly context: Pick<ProcessContext, 'clock' | 'log' | 'random' | 'signal'>;
  readonly network: NetworkDriver;
  readonly nodeName: string;
  readonly facts: ClusterFacts;
  readonly addresses: readonly string[];
  readonly runtimes: () => Iterable<PodRuntime>;
  readonly nodeState: () => Pick<NodeStateManager, 'networkConfigured' | 'refresh' | 'current'> | undefined;
  readonly agents: ReadonlyMap<string, { readonly pods: Pick<NodeAgent['pods'], 'wakeSyncingPods'>; report(): Promise<void> }>;
  /** The network attachments of this kubelet's pods that were found at startup. */
  readonly heldAttachments: readonly HeldAttachment[];
}

/** Creates the network setup of this process, which configures the network plugin and then waits until the runtimes report the network ready. */
export function createNodeNetworkSetup(options: PodNetworkOptions): NodeNetworkSetup {
  const { context, network, nodeName, facts, addresses, heldAttachments: ours } = options;
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
    heldAttachments: (call) => (network.traits.namespace === 'node' ? Promise.resolve(ours) : sandboxes(options, call)),
    ready: () => isReady(options),
  });
}

/** Lists all sandboxes of the runtimes, including those of other kubelets, because kubelets may share a runtime and its network. */
async function sandboxes({ runtimes }: PodNetworkOptions, signal: AbortSignal): Promise<readonly HeldAttachment[]> {
  const lists = await Promise.all([...runtimes()].map(({ pleg }) => pleg.driver.listPodSandbox({}, { signal })));
  return lists.flat().map(({ id }) => ({ containerId: id, ifName: podInterface }));
}

/** Records that the network is configured and waits until the runtime reports the network ready. */
async function isReady({ context: { clock, log, signal }, nodeState: current, agents }: PodNetworkOptions): Promise<void> {
  const nodeState = current();
  if (!nodeState) return;
  nodeState.networkConfigured();
  const backoff = new Backoff({ firstMs: 20, longestMs: 1000, jitter: 0, random: () => 0 });
  while (!nodeState.current.networkReady) {
    try {
      await nodeState.refresh();
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, "collecting the node's state failed");
    }
    if (signal.aborted) return;
    if (!nodeState.current.networkReady) await clock.sleep(backoff.next(), signal).catch(() => undefined);
  }
  for (const agent of agents.values()) {
    agent.pods.wakeSyncingPods();
    void agent.report();
  }
}
