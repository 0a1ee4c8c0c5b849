import type { EventRecorder } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { NodeAgentOptions } from './node-agent.ts';
import { quiet } from './quiet-recorder.ts';

/** What the config says of each node of the process. */
export function agentOptions(
  config: KubeletConfig,
  keys: Pick<ClusterKeys, 'trustOnly'>,
  recorder: EventRecorder,
): Omit<NodeAgentOptions, 'name' | 'ticks' | 'situation' | 'podCIDRs'> {
  const isOnlyNode = config.count === undefined;
  return {
    labels: config.labels,
    certified: config.tls !== undefined || keys.trustOnly !== true,
    taints: config.taints.map(({ key, value, effect }) => ({ key, effect, ...(value !== undefined && { value }) })),
    podCIDR: config.podCIDR,
    leasePeriodMs: config.nodeLeaseDurationSeconds * 250,
    leaseDurationSeconds: config.nodeLeaseDurationSeconds,
    statusReportMs: config.nodeStatusReportMs,
    registers: config.registerNode,
    quiet: !isOnlyNode,
    recorder: (config.normalEvents ?? isOnlyNode) ? recorder : quiet(recorder),
  };
}
