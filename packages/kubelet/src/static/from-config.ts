import type { KubeletConfig } from '../kubelet-config.ts';
import type { KubeletContext } from '../node-context.ts';
import type { NodeAgent } from '../node/node-agent.ts';
import type { PodSource } from '../pod-source.ts';
import { StaticPods } from './static-pods.ts';

/** The static pods of a node, with their mirrors in the API; undefined where the config names no place to find any, or many nodes. Not started. */
export function staticPodsOf(
  { staticPods: { path, url, urlHeaders, everyMs }, count }: KubeletConfig,
  context: KubeletContext,
  agent: NodeAgent,
  source: PodSource,
): StaticPods | undefined {
  if ((path === undefined && url === undefined) || count !== undefined) return undefined;
  const found = new StaticPods({
    context,
    nodeName: agent.name,
    pods: agent.pods,
    path,
    url,
    urlHeaders,
    everyMs,
    found: (uid) => source.claim(uid),
    node: () => agent.node,
  });
  source.mirrorsTo(found);
  return found;
}
