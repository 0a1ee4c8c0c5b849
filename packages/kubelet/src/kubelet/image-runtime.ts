import type { Pod } from '@oarlock/api/types/core-v1';
import { isHostImage, type RuntimeDriver } from '@oarlock/spi/runtime';
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

/** Returns why the runtimes that run images do not run them on this machine; empty if there are none. */
export async function unavailableImages(drivers: ReadonlyMap<string, RuntimeDriver>, signal: AbortSignal): Promise<string> {
  const reasons: string[] = [];
  for (const [name, driver] of drivers) {
    const support = await driver.imageSupport?.({ signal });
    if (support?.available === false) reasons.push(`${name} is not available on this machine: ${support.detail}`);
  }
  return reasons.join('; ');
}
