import { readFileSync } from 'node:fs';
import { Agent as PlainAgent, request as plainRequest } from 'node:http';
import { Agent, request } from 'node:https';
import type { Pod } from '@oarlock/api/types/core-v1';
import { unresolvable, unschedulable, type Eviction, type NodeInfo, type PodInfo, type Snapshot } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import type { ExtenderConfig } from './configuration.ts';
import type { Refusal } from './cycle.ts';

const maxBytes = 64 * 1024 * 1024;
/** Scores of extenders go up to 10, those of plugins to 100. */
const scale = 10;

const failedNodes = z.record(z.string(), z.string()).nullish();
const filterResult = z.object({
  nodes: z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })).nullish() }).nullish(),
  nodenames: z.array(z.string()).nullish(),
  failednodes: failedNodes,
  failedandunresolvablenodes: failedNodes,
  error: z.string().nullish(),
});
const priorities = z.array(z.object({ host: z.string(), score: z.number() })).nullable();
const bindResult = z.object({ error: z.string().nullish() });
const victims = z.object({
  pods: z.array(z.object({ uid: z.string() })).nullish(),
  numpdbviolations: z.number().default(0),
});
const preemptResult = z.object({ nodenametometavictims: z.record(z.string(), victims).nullish() });

/** Go reads field names in any case. Those of the maps are names of nodes, which are in lower case anyway. */
function lowerKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lowerKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.toLowerCase(), lowerKeys(each)]));
}

/** A service outside that has a say in where some pods go: upstream's scheduler extender over HTTP. */
export class Extender {
  readonly name: string;
  readonly #config: ExtenderConfig;
  readonly #managed: ReadonlySet<string>;
  readonly #agent: Agent | PlainAgent;

  /** Reads the files of the TLS configuration. @throws Error */
  constructor(config: ExtenderConfig) {
    this.name = config.urlPrefix;
    this.#config = config;
    this.#managed = new Set(config.managedResources.map(({ name }) => name));
    const { tlsConfig: tls } = config;
    const read = (data: string | undefined, file: string | undefined) => data ?? (file && readFileSync(file, 'utf8'));
    const ca = read(tls.caData, tls.caFile);
    const cert = read(tls.certData, tls.certFile);
    const key = read(tls.keyData, tls.keyFile);
    this.#agent = this.#secure
      ? new Agent({
          keepAlive: true,
          minVersion: 'TLSv1.2',
          rejectUnauthorized: !tls.insecure,
          ...(tls.serverName && { servername: tls.serverName }),
          ...(ca && { ca }),
          ...(cert && { cert }),
          ...(key && { key }),
        })
      : new PlainAgent({ keepAlive: true });
  }

  get ignorable(): boolean {
    return this.#config.ignorable;
  }
  get filters(): boolean {
    return this.#config.filterVerb !== '';
  }
  get scores(): boolean {
    return this.#config.prioritizeVerb !== '';
  }
  get preempts(): boolean {
    return this.#config.preemptVerb !== '';
  }
  get binds(): boolean {
    return this.#config.bindVerb !== '';
  }
  get #secure(): boolean {
    return this.#config.enableHTTPS || this.#config.urlPrefix.startsWith('https:');
  }

  /** Without managed resources it is asked about every pod, else about those that ask for one of them. */
  isInterested({ spec }: Pod): boolean {
    if (this.#managed.size === 0) return true;
    return [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].some(({ resources }) =>
      Object.keys({ ...resources?.requests, ...resources?.limits }).some((name) => this.#managed.has(name)),
    );
  }

  async filter(
    pod: Pod,
    nodes: readonly NodeInfo[],
    signal: AbortSignal,
  ): Promise<{ readonly fits: readonly NodeInfo[]; readonly refused: ReadonlyMap<string, Refusal> }> {
    const answer = filterResult.parse(lowerKeys(await this.#call(this.#config.filterVerb, this.#nodesOf(pod, nodes), signal)));
    if (answer.error) throw new Error(answer.error);
    const names = new Set(
      this.#config.nodeCacheCapable ? (answer.nodenames ?? []) : (answer.nodes?.items ?? []).map(({ metadata }) => metadata.name),
    );
    const refused = new Map<string, Refusal>();
    for (const [name, reason] of Object.entries(answer.failednodes ?? {}))
      refused.set(name, { plugin: this.name, outcome: unschedulable(reason) });
    for (const [name, reason] of Object.entries(answer.failedandunresolvablenodes ?? {}))
      refused.set(name, { plugin: this.name, outcome: unresolvable(reason) });
    return { fits: nodes.filter(({ name }) => names.has(name)), refused };
  }

  /** What it adds to the score of each node. */
  async prioritize(pod: Pod, nodes: readonly NodeInfo[], signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
    const answer = priorities.parse(lowerKeys(await this.#call(this.#config.prioritizeVerb, this.#nodesOf(pod, nodes), signal)));
    return new Map((answer ?? []).map(({ host, score }) => [host, score * this.#config.weight * scale]));
  }

  /** Those of the places for preemption that it agrees to, with the victims it leaves. */
  async preempt(pod: Pod, places: readonly Eviction[], snapshot: Snapshot, signal: AbortSignal): Promise<readonly Eviction[]> {
    const { nodeCacheCapable, preemptVerb } = this.#config;
    const body = {
      Pod: pod,
      ...(nodeCacheCapable
        ? {
            NodeNameToMetaVictims: Object.fromEntries(
              places.map(({ node, victims: some, violations }) => [
                node,
                { Pods: some.map((each) => ({ UID: each.pod.metadata?.uid })), NumPDBViolations: violations },
              ]),
            ),
          }
        : {
            NodeNameToVictims: Object.fromEntries(
              places.map(({ node, victims: some, violations }) => [
                node,
                { Pods: some.map((each) => each.pod), NumPDBViolations: violations },
              ]),
            ),
          }),
    };
    const answer = preemptResult.parse(lowerKeys(await this.#call(preemptVerb, body, signal)));
    return Object.entries(answer.nodenametometavictims ?? {}).map(([node, { pods, numpdbviolations }]) => {
      const here = snapshot.get(node);
      const found = (pods ?? []).map(({ uid }): PodInfo => {
        const victim = here?.pods.find((each) => each.pod.metadata?.uid === uid);
        if (victim === undefined) throw new Error(`extender ${this.name} names a pod ${uid} that is not on node ${node}`);
        return victim;
      });
      return { node, victims: found, violations: numpdbviolations };
    });
  }

  async bind({ metadata }: Pod, node: string, signal: AbortSignal): Promise<void> {
    const { name, namespace, uid } = metadata ?? {};
    const body = { PodName: name, PodNamespace: namespace, PodUID: uid, Node: node };
    const { error } = bindResult.parse(lowerKeys((await this.#call(this.#config.bindVerb, body, signal)) ?? {}));
    if (error) throw new Error(error);
  }

  close(): void {
    this.#agent.destroy();
  }

  #nodesOf(pod: Pod, nodes: readonly NodeInfo[]): object {
    return this.#config.nodeCacheCapable
      ? { Pod: pod, Nodes: null, NodeNames: nodes.map(({ name }) => name) }
      : { Pod: pod, Nodes: { items: nodes.map(({ node }) => node) }, NodeNames: null };
  }

  #call(verb: string, body: object, signal: AbortSignal): Promise<unknown> {
    const url = `${this.#config.urlPrefix.replace(/\/+$/, '')}/${verb}`.replace(/^http:/, this.#secure ? 'https:' : 'http:');
    const text = JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const options = {
        method: 'POST',
        agent: this.#agent,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
        signal: AbortSignal.any([signal, AbortSignal.timeout(this.#config.httpTimeout)]),
      };
      const sent = this.#secure ? request(url, options) : plainRequest(url, options);
      sent.on('error', (cause) => reject(new Error(`extender ${url}: ${cause.message}`, { cause })));
      sent.on('response', (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxBytes) sent.destroy(new Error(`the answer is larger than ${maxBytes} bytes`));
          else chunks.push(chunk);
        });
        response.on('error', reject);
        response.on('end', () => {
          if (response.statusCode !== 200) {
            reject(new Error(`failed ${verb} with extender at URL ${url}, code ${response.statusCode}`));
            return;
          }
          try {
            resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')));
          } catch (cause) {
            reject(new Error(`extender ${url} answered no JSON`, { cause }));
          }
        });
      });
      sent.end(text);
    });
  }
}
