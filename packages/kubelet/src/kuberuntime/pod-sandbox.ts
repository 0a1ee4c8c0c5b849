import { podInterface, type Attachment } from '@oarlock/spi/network';
import type { PodSandboxConfig, PodSandboxStatus } from '@oarlock/spi/runtime';
import { runtimeLabels } from '../runtime/labels.ts';
import { generatePodSandboxConfig, usesNodeNetworkNamespace } from './internal/cri-config.ts';
import { isHostNetwork } from '../pod-util/pods.ts';
import type { PodRecord } from '../pod/pod-record.ts';
import type { PodLifecycleListener } from '../runtime/pleg.ts';
import type { SyncPass } from '../pod/sync-pass.ts';
import { killContainersWithSyncResult } from './internal/container-kill.ts';

/** Returns the CNI attachment of a sandbox whose address the kubelet obtains. The attachment's id does not depend on the sandbox's id. */
export function networkAttachmentOf(
  { uid, namespace, name, pod }: Pick<PodRecord, 'uid' | 'namespace' | 'name' | 'pod'>,
  attempt: number,
): Attachment {
  return {
    containerId: `${uid}-${attempt}`,
    ifName: podInterface,
    pod: { namespace, name, uid },
    portMappings: [],
    annotations: pod.metadata?.annotations ?? {},
  };
}

/** Obtains the pod's addresses if the runtime does not provide them; returns undefined if the runtime does or the pod is on the host network. */
async function podIPsFor(pass: SyncPass, attempt: number): Promise<readonly string[] | undefined> {
  const { record } = pass;
  const { node, pod, runtime } = record;
  if (!runtime || isHostNetwork(pod)) return undefined;
  if (usesNodeNetworkNamespace(pod, node, runtime)) {
    const result = await pass.step(
      'CNI ADD',
      (call) =>
        node.network?.add(networkAttachmentOf(record, attempt), call) ?? Promise.reject(new Error('no network plugin is configured')),
    );
    return result.ips.length > 0 ? result.ips : node.addresses;
  }
  // without network namespaces and without a plugin for the node's namespace the pod has the node's addresses
  return runtime.pleg.driver.traits.networkNamespaces || runtime.pleg.simulated ? undefined : node.addresses;
}

/** Applies network policies, unless the pod has no addresses of its own. */
async function applyNetworkPolicies(pass: SyncPass, { ips }: PodSandboxStatus): Promise<void> {
  const { node, pod, namespace, name, uid } = pass.record;
  const { networkPolicies: policy } = node;
  if (!policy || ips.length === 0) return;
  const labels = pod.metadata?.labels ?? {};
  await pass.step('NetworkPolicy', (call) => policy.protect({ namespace, name, uid, labels, ips }, call));
}

/** Reports a sandbox that the container runtime attached to the network plugin. */
async function adoptAttachment(pass: SyncPass, { id }: PodSandboxStatus): Promise<void> {
  const { node, runtime } = pass.record;
  const { network } = node;
  if (!runtime?.pleg.driver.traits.invokesCni || !network?.adopt) return;
  await pass.step('CNI adopt', async (call) => network.adopt?.({ containerId: id, ifName: podInterface }, call));
}

/** Protects the network of a sandbox before any of its containers starts. If that fails, the sandbox is removed. */
async function protectNetwork(pass: SyncPass, status: PodSandboxStatus): Promise<void> {
  const { pod, runtime } = pass.record;
  if (!runtime || isHostNetwork(pod) || !runtime.pleg.driver.traits.networkNamespaces) return;
  const results = await Promise.allSettled([adoptAttachment(pass, status), applyNetworkPolicies(pass, status)]);
  const failure = results.find((result) => result.status === 'rejected');
  if (!failure) return;
  await runtime.pleg.driver.stopPodSandbox(status.id, { signal: pass.signal });
  // the next attempt has the same name, which the runtime reserves for a sandbox that exists
  await runtime.pleg.driver.removePodSandbox(status.id, { signal: pass.signal });
  throw failure.reason;
}

/** Creates a sandbox and reads its addresses. Returns the sandbox config, which the creation of containers needs. */
export async function createSandbox(pass: SyncPass, attempt: number, listener: PodLifecycleListener): Promise<PodSandboxConfig> {
  const { record } = pass;
  const { node, pod, runtime, handler } = record;
  if (!runtime) throw new Error('the pod has no runtime');
  const podIPs = await podIPsFor(pass, attempt);
  try {
    const [config] = await Promise.all([
      generatePodSandboxConfig({ pod, node, runtime, handler }, attempt, podIPs),
      node.containerManager.podContainerManager(runtime)?.ensureExists(pod),
    ]);
    const id = await pass.step('RunPodSandbox', (call) => runtime.pleg.driver.runPodSandbox(config, handler, call), {
      'oarlock.runtime': runtime.pleg.name,
    });
    // subscribe first: an event after the read must not be lost
    runtime.pleg.watch(id, listener);
    try {
      const status = await runtime.pleg.sandboxStatus(id, pass.signal);
      if (status === undefined) throw new Error('the sandbox disappeared right after its creation');
      await protectNetwork(pass, status);
      record.state.setSandbox(status);
    } catch (error) {
      runtime.pleg.unwatch(id);
      throw error;
    }
    return config;
  } catch (error) {
    if (podIPs && usesNodeNetworkNamespace(pod, node, runtime))
      await node.network?.del(networkAttachmentOf(record, attempt), { spanContext: pass.spanContext });
    throw error;
  }
}

/** Stops all containers and sandboxes of the pod and releases the pod's addresses. The runtime keeps the stopped containers. Idempotent. */
export async function killPod(
  record: PodRecord,
  options: { readonly grace?: number | undefined; readonly signal: AbortSignal; readonly preStopHooksRun?: Set<string> },
): Promise<void> {
  const { runtime, node, state } = record;
  if (!runtime) return;
  const { pleg } = runtime;
  const { signal } = options;
  await killContainersWithSyncResult(record, options);
  for (const sandbox of state.sandboxes) {
    await pleg.driver.stopPodSandbox(sandbox.id, { signal });
    if (sandbox.annotations[runtimeLabels.podIPs] !== undefined && node.network?.traits.namespace === 'node')
      await node.network.del(networkAttachmentOf(record, sandbox.metadata.attempt), { signal });
    const now = await pleg.sandboxStatus(sandbox.id, signal);
    if (now) state.setSandbox(now);
    else {
      state.removeSandbox(sandbox.id);
      pleg.unwatch(sandbox.id);
    }
  }
  for (const { id, state: before } of state.containers) {
    if (before === 'EXITED') continue;
    const now = await pleg.containerStatus(id, signal);
    if (now) state.setContainer(now);
    else state.removeContainer(id);
  }
}

/** Removes the pod's stopped containers and sandboxes from the runtime. */
export async function removePod(record: PodRecord, signal: AbortSignal): Promise<void> {
  const { runtime, state } = record;
  if (!runtime) return;
  const { pleg } = runtime;
  const inSandboxes = new Set(state.sandboxes.map(({ id }) => id));
  for (const { id, sandboxId } of state.containers) if (!inSandboxes.has(sandboxId)) await pleg.driver.removeContainer(id, { signal });
  for (const { id } of state.sandboxes) {
    pleg.unwatch(id);
    await pleg.driver.removePodSandbox(id, { signal });
  }
  state.replace([], []);
}
