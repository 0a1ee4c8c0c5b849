import type { EventRecorder } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { NodeAgentOptions } from './node-agent.ts';
import { warningsOnly } from './internal/warning-recorder.ts';

/** Returns the options that all nodes of the process share. */
export function nodeAgentOptions(
  config: KubeletConfig,
  keys: Pick<ClusterKeys, 'trustOnly'>,
  recorder: EventRecorder,
): Omit<NodeAgentOptions, 'name' | 'timers' | 'nodeState' | 'podCIDRsChanged'> {
  const isOnlyNode = config.count === undefined;
  return {
    labels: config.labels,
    servesClusterCertificate: config.tls !== undefined || keys.trustOnly !== true,
    taints: config.taints.map(({ key, value, effect }) => ({ key, effect, ...(value !== undefined && { value }) })),
    podCIDR: config.podCIDR,
    leasePeriodMs: config.nodeLeaseDurationSeconds * 250,
    leaseDurationSeconds: config.nodeLeaseDurationSeconds,
    statusReportMs: config.nodeStatusReportMs,
    registerNode: config.registerNode,
    suppressNodeEvents: !isOnlyNode,
    recorder: (config.normalEvents ?? isOnlyNode) ? recorder : warningsOnly(recorder),
  };
}
