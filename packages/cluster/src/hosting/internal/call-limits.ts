import type { Slot } from '@oarlock/kernel/plugin';
import { Admission } from '@oarlock/spi/admission';
import { Audit } from '@oarlock/spi/audit';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cloud } from '@oarlock/spi/cloud';
import { Controllers } from '@oarlock/spi/controller';
import { Dns } from '@oarlock/spi/dns';
import { Network } from '@oarlock/spi/network';
import { Paths } from '@oarlock/spi/paths';
import { Policy } from '@oarlock/spi/policy';
import { Proxy } from '@oarlock/spi/proxy';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling } from '@oarlock/spi/scheduling';
import { Storage } from '@oarlock/spi/storage';
import { Volumes } from '@oarlock/spi/volume';

const seconds = (count: number): number => count * 1_000;
const minutes = (count: number): number => seconds(60 * count);

/**
 * Time limits in milliseconds of the methods of a slot that return promises. Methods that run until a client or a signal ends them have none. The
 * guard adds the time that a caller allows in an argument.
 */
export type CallLimits = Readonly<Record<string, number>>;

/**
 * Upstream's limits where it has them: timeoutSeconds of webhooks (10 s), bindTimeoutSeconds (600 s), runtimeRequestTimeout of the kubelet (2 min,
 * 4 min for a sandbox), the limit of CNI calls (220 s) and of CSI calls (2 min).
 */
const limits = new Map<symbol, CallLimits>([
  [Admission.token, { mutate: seconds(10), validate: seconds(10) }],
  [Authn.token, { authenticate: seconds(10) }],
  [Authz.token, { authorize: seconds(10), rulesFor: seconds(10) }],
  [Audit.token, { record: seconds(10) }],
  [
    Storage.token,
    { get: minutes(1), range: minutes(1), commit: minutes(1), requestProgress: minutes(1), compact: minutes(5), skipTo: minutes(1) },
  ],
  [Paths.token, { handle: minutes(1), authenticate: seconds(10) }],
  [
    Scheduling.token,
    { postFilter: seconds(30), podGroupPostFilter: seconds(30), reserve: seconds(10), preBind: minutes(10), bind: seconds(30) },
  ],
  [Controllers.token, { reconcile: minutes(2) }],
  [Cloud.token, { instance: minutes(2), list: minutes(2), create: minutes(2), remove: minutes(2), ensure: minutes(10) }],
  [
    Runtime.token,
    {
      ...Object.fromEntries(
        [
          ...[
            'version',
            'status',
            'features',
            'isolation',
            'imageSupport',
            'limitations',
            'cgroupDriver',
            'stopPodSandbox',
            'removePodSandbox',
            'podSandboxStatus',
          ],
          ...['listPodSandbox', 'createContainer', 'startContainer', 'removeContainer', 'containerStatus', 'listContainers'],
          ...['updateContainerResources', 'reopenContainerLog', 'containerStats', 'listContainerStats', 'listImages', 'imageStatus'],
          ...['removeImage', 'imageFsInfo', 'portForward'],
        ].map((method) => [method, minutes(2)]),
      ),
      runPodSandbox: minutes(4),
      stopContainer: minutes(2),
      execSync: minutes(2),
      pullImage: minutes(30),
    },
  ],
  [
    Network.token,
    {
      setup: minutes(2),
      add: seconds(220),
      adopt: seconds(220),
      check: seconds(220),
      del: seconds(220),
      status: seconds(30),
      gc: seconds(220),
    },
  ],
  [Volumes.token, { mount: minutes(2), unmount: minutes(2), usage: minutes(2) }],
  [Policy.token, { protect: seconds(30) }],
  [Proxy.token, { apply: seconds(30) }],
  [Dns.token, { apply: seconds(30) }],
]);

/** Returns the default time limits of a slot, by method; empty for a slot whose methods have none. */
export const callLimitsOf = (slot: Slot<unknown>): CallLimits => limits.get(slot.token) ?? {};
