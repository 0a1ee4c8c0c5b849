import { runtimeClasses } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { KubeletDependencies, KubeletComponents } from './kubelet-context.ts';
import type { PodRuntime } from '../pod/node-context.ts';
import { runtimeForImages } from './image-runtime.ts';

/**
 * Returns the runtime and the runtime handler of a pod's RuntimeClass. A handler with the name of a configured runtime selects that runtime;
 * any other handler is passed to the default runtime. Without a RuntimeClass the images decide. @throws Error if the RuntimeClass does not exist
 */
export async function runtimeForPod(
  pod: Pod,
  { runtimes, defaultRuntime, context }: KubeletComponents,
  informers: KubeletDependencies['informers'],
): Promise<{ readonly runtime: PodRuntime; readonly handler: string }> {
  const name = pod.spec?.runtimeClassName;
  if (name === undefined || name === '')
    return { runtime: await runtimeForImages(pod, { runtimes: runtimes.values(), defaultRuntime, signal: context.signal }), handler: '' };
  const informer = informers.forResource(runtimeClasses);
  await informer.whenSynced(context.signal);
  const handler = informer.get(name)?.handler;
  if (handler === undefined) throw new Error(`failed to get sandbox runtime: runtimeclass.node.k8s.io "${name}" not found`);
  const namedRuntime = runtimes.get(handler);
  return namedRuntime ? { runtime: namedRuntime, handler: '' } : { runtime: defaultRuntime, handler };
}
