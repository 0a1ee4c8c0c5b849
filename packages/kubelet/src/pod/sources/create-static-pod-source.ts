import type { KubeletConfig } from '../../config/kubelet-config.ts';
import type { NodeAgent } from '../../node/node-agent.ts';
import type { ApiServerSource } from './api-server-source.ts';
import { StaticPodSource, type StaticPodSourceOptions } from './static-pod-source.ts';

/** What a source of static pods needs. */
export interface StaticPodSourceDependencies {
  readonly context: StaticPodSourceOptions['context'];
  readonly agent: NodeAgent;
  readonly source: ApiServerSource;
}

/** Creates the source of a node's static pods, without starting it. Returns undefined if none is configured, or if the process has many nodes. */
export function createStaticPodSource(
  { staticPods: { path, url, urlHeaders, everyMs }, count }: KubeletConfig,
  { context, agent, source }: StaticPodSourceDependencies,
): StaticPodSource | undefined {
  if ((path === undefined && url === undefined) || count !== undefined) return undefined;
  const found = new StaticPodSource({
    context,
    nodeName: agent.name,
    pods: agent.pods,
    path,
    url,
    urlHeaders,
    periodMs: everyMs,
    takeRuntimePod: (uid) => source.takeRuntimePod(uid),
    node: () => agent.node,
  });
  source.setMirrorHandler(found);
  return found;
}
