import type { Pod } from '@oarlock/api/types/core-v1';
import { hostImage, isHostImage, type RuntimeDriver } from '@oarlock/spi/runtime';
import type { PodRuntime } from '../pod/node-context.ts';

interface ImageRuntimeOptions {
  readonly runtimes: Iterable<PodRuntime>;
  readonly defaultRuntime: PodRuntime;
  readonly signal: AbortSignal;
}

/**
 * Returns the runtime of a pod without a RuntimeClass: the default runtime, unless it runs no images and the pod names one. Then it is the first
 * runtime that runs images on this machine.
 */
export async function runtimeForImages(pod: Pod, { runtimes, defaultRuntime, signal }: ImageRuntimeOptions): Promise<PodRuntime> {
  if (defaultRuntime.pleg.driver.traits.images) return defaultRuntime;
  const containers = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
  if (containers.every(({ image = '' }) => isHostImage(image))) return defaultRuntime;
  for (const runtime of runtimes) {
    const { driver, simulated } = runtime.pleg;
    if (driver.traits.images && !simulated && (await driver.imageSupport?.({ signal }))?.available !== false) return runtime;
  }
  return defaultRuntime;
}

/**
 * Returns why no other runtime of the node runs an image of a pod whose runtime runs none; empty if no runtime runs images. Runtimes that could are named: the pod
 * had its runtime before the image, which an ephemeral container or an update of the pod brought.
 */
export async function unavailableImages(drivers: ReadonlyMap<string, RuntimeDriver>, signal: AbortSignal): Promise<string> {
  const reasons: string[] = [];
  for (const [name, driver] of drivers) {
    const support = await driver.imageSupport?.({ signal });
    if (support === undefined) continue;
    reasons.push(
      support.available
        ? `${name} runs images, but all containers of a pod run with the runtime that its first containers chose: use the image "${hostImage}" here, or a pod with other images`
        : `${name} is not available on this machine: ${support.detail}`,
    );
  }
  return reasons.join('; ');
}
