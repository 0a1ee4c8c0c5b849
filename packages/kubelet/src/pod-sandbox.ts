import type { Attachment } from '@oarlock/spi/network';
import type { PodSandboxConfig, PodSandboxStatus } from '@oarlock/spi/runtime';
import { names } from './labels.ts';
import { sandboxConfig, usesNodeNetwork } from './pod-config.ts';
import { isHostNetwork } from './pods.ts';
import type { PodRecord } from './pod-record.ts';
import type { RuntimeListener } from './runtime-hub.ts';
import type { SyncPass } from './sync-pass.ts';
import { stopAllContainers } from './container-stop.ts';

/** How the network plugin knows a sandbox whose address the kubelet obtains: before the sandbox is there. */
export function attachmentOf(
  { uid, namespace, name, pod }: Pick<PodRecord, 'uid' | 'namespace' | 'name' | 'pod'>,
  attempt: number,
): Attachment {
  return {
    containerId: `${uid}-${attempt}`,
    ifName: 'eth0',
    pod: { namespace, name, uid },
    portMappings: [],
    annotations: pod.metadata?.annotations ?? {},
  };
}

/** Addresses that the sandbox cannot get from its runtime. */
async function addressesFor(pass: SyncPass, attempt: number): Promise<readonly string[] | undefined> {
  const { record } = pass;
  const { node, pod, runtime } = record;
  if (!runtime || isHostNetwork(pod)) return undefined;
  if (usesNodeNetwork(pod, node, runtime)) {
    const result = await pass.step(
      'CNI ADD',
      (call) => node.network?.add(attachmentOf(record, attempt), call) ?? Promise.reject(new Error('there is no network plugin')),
    );
    return result.ips.length > 0 ? result.ips : node.addresses;
  }
  // without namespaces and without a plugin that gives addresses the pod is where the node is
  return runtime.hub.driver.traits.networkNamespaces || runtime.hub.simulated ? undefined : node.addresses;
}

/** Nothing runs in the sandbox yet: from its first packet on the pod's policies hold. One that cannot be protected is no sandbox for the pod. */
async function protect(pass: SyncPass, { id, ips }: PodSandboxStatus): Promise<void> {
  const { node, pod, runtime, namespace, name, uid } = pass.record;
  const { policy } = node;
  if (!runtime || !policy || ips.length === 0 || isHostNetwork(pod) || !runtime.hub.driver.traits.networkNamespaces) return;
  const labels = pod.metadata?.labels ?? {};
  try {
    await pass.step('NetworkPolicy', (call) => policy.protect({ namespace, name, uid, labels, ips }, call));
  } catch (error) {
    await runtime.hub.driver.stopPodSandbox(id, { signal: pass.signal });
    throw error;
  }
}

/** Creates a sandbox and learns its addresses. Returns the config that containers are created with. */
export async function createSandbox(pass: SyncPass, attempt: number, listener: RuntimeListener): Promise<PodSandboxConfig> {
  const { record } = pass;
  const { node, pod, runtime, handler } = record;
  if (!runtime) throw new Error('the pod has no runtime');
  const podIPs = await addressesFor(pass, attempt);
  try {
    await node.cgroups.of(runtime)?.make(pod);
    const config = await sandboxConfig({ pod, node, runtime, handler }, attempt, podIPs);
    const id = await pass.step('RunPodSandbox', (call) => runtime.hub.driver.runPodSandbox(config, handler, call), {
      'oarlock.runtime': runtime.hub.name,
    });
    const status = await runtime.hub.sandboxStatus(id, pass.signal);
    if (status === undefined) throw new Error('the sandbox was gone as soon as it was made');
    await protect(pass, status);
    record.state.setSandbox(status);
    runtime.hub.watch(id, listener);
    return config;
  } catch (error) {
    if (podIPs && usesNodeNetwork(pod, node, runtime)) await node.network?.del(attachmentOf(record, attempt), { cause: pass.cause });
    throw error;
  }
}

/** Stops every container and sandbox and gives addresses back. What was stopped stays in the runtime. Idempotent. */
export async function stopPod(
  record: PodRecord,
  options: { readonly grace?: number | undefined; readonly signal: AbortSignal; readonly hooked?: Set<string> },
): Promise<void> {
  const { runtime, node, state } = record;
  if (!runtime) return;
  const { hub } = runtime;
  const { signal } = options;
  await stopAllContainers(record, options);
  for (const sandbox of state.sandboxes) {
    await hub.driver.stopPodSandbox(sandbox.id, { signal });
    if (sandbox.annotations[names.podIPs] !== undefined && node.network?.traits.namespace === 'node')
      await node.network.del(attachmentOf(record, sandbox.metadata.attempt), { signal });
    const now = await hub.sandboxStatus(sandbox.id, signal);
    if (now) state.setSandbox(now);
    else {
      state.removeSandbox(sandbox.id);
      hub.unwatch(sandbox.id);
    }
  }
  for (const { id, state: before } of state.containers) {
    if (before === 'EXITED') continue;
    const now = await hub.containerStatus(id, signal);
    if (now) state.setContainer(now);
    else state.removeContainer(id);
  }
}

/** Removes what `stopPod` left. */
export async function removePod(record: PodRecord, signal: AbortSignal): Promise<void> {
  const { runtime, state } = record;
  if (!runtime) return;
  const { hub } = runtime;
  const inSandboxes = new Set(state.sandboxes.map(({ id }) => id));
  for (const { id, sandboxId } of state.containers) if (!inSandboxes.has(sandboxId)) await hub.driver.removeContainer(id, { signal });
  for (const { id } of state.sandboxes) {
    hub.unwatch(id);
    await hub.driver.removePodSandbox(id, { signal });
  }
  state.replace([], []);
}
