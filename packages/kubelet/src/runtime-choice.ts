import { runtimeClasses } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { KubeletNeeds, KubeletParts } from './kubelet-context.ts';
import type { PodRuntime } from './node-context.ts';

/**
 * The runtime that runs a pod and the handler it is told, by the pod's RuntimeClass: a class whose handler is the name of a placed runtime chooses
 * that, any other is a handler of the default one. @throws Error when there is no such class
 */
export async function runtimeOf(
  pod: Pod,
  { runtimes, defaultRuntime, context }: KubeletParts,
  informers: KubeletNeeds['informers'],
): Promise<{ readonly runtime: PodRuntime; readonly handler: string }> {
  const name = pod.spec?.runtimeClassName;
  if (name === undefined || name === '') return { runtime: defaultRuntime, handler: '' };
  const informer = informers.of(runtimeClasses);
  await informer.whenSynced(context.signal);
  const handler = informer.get(name)?.handler;
  if (handler === undefined) throw new Error(`failed to get sandbox runtime: runtimeclass.node.k8s.io "${name}" not found`);
  const placed = runtimes.get(handler);
  return placed ? { runtime: placed, handler: '' } : { runtime: defaultRuntime, handler };
}
