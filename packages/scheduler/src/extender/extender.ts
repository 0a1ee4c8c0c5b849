import { readFileSync } from 'node:fs';
import { Agent as PlainAgent, request as plainRequest } from 'node:http';
import { Agent, request } from 'node:https';
import type { Pod } from '@oarlock/api/types/core-v1';
import {
  unschedulableAndUnresolvable,
  unschedulable,
  type PreemptionCandidate,
  type NodeInfo,
  type PodInfo,
  type Snapshot,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { clientTimeout, connectionEnds, goErrorText, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import type { ExtenderConfig } from '../config/configuration.ts';
import type { Rejection } from '../framework/plugin-status.ts';

const maxResponseBytes = 64 * 1024 * 1024;
/** Factor between the scores of extenders, from 0 to 10, and the scores of plugins, from 0 to 100. */
const scoreScale = 10;

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

/**
 * Returns the value with lower-case field names, because Go decodes field names case-insensitively. Other keys are node names, which are lower
 * case already.
 */
function lowerKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lowerKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.toLowerCase(), lowerKeys(each)]));
}

/** The candidates for preemption that the extender reviews. */
export interface ExtenderPreemption {
  readonly candidates: readonly PreemptionCandidate[];
  readonly snapshot: Snapshot;
  readonly signal: AbortSignal;
}

/** A scheduler extender: an HTTP service that filters, scores, binds, or takes part in preemption. */
export class Extender {
  readonly name: string;
  readonly #config: ExtenderConfig;
  readonly #managed: ReadonlySet<string>;
  readonly #agent: Agent | PlainAgent;

  /** Reads the files of the TLS configuration. @throws Error if a file cannot be read */
  constructor(config: ExtenderConfig) {
    this.name = config.urlPrefix;
    this.#config = config;
    this.#managed = new Set(config.managedResources.map(({ name }) => name));
    const { tlsConfig: tls } = config;
    const read = (data: string | undefined, file: string | undefined) => data ?? (file && readFileSync(file, 'utf8'));
    const ca = read(tls.caData, tls.caFile);
    const cert = read(tls.certData, tls.certFile);
    const key = read(tls.keyData, tls.keyFile);
    this.#agent = this.#usesTls
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

  get isIgnorable(): boolean {
    return this.#config.ignorable;
  }
  get isFilter(): boolean {
    return this.#config.filterVerb !== '';
  }
  get isPrioritizer(): boolean {
    return this.#config.prioritizeVerb !== '';
  }
  get isPreemptor(): boolean {
    return this.#config.preemptVerb !== '';
  }
  get isBinder(): boolean {
    return this.#config.bindVerb !== '';
  }
  get #usesTls(): boolean {
    return this.#config.enableHTTPS || this.#config.urlPrefix.startsWith('https:');
  }

  /** Returns true if the extender has no managed resources, or if the pod requests one of the managed resources. */
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
  ): Promise<{ readonly passed: readonly NodeInfo[]; readonly rejected: ReadonlyMap<string, Rejection> }> {
    const answer = filterResult.parse(lowerKeys(await this.#call(this.#config.filterVerb, this.#nodesOf(pod, nodes), signal)));
    if (answer.error) throw new Error(answer.error);
    const names = new Set(
      this.#config.nodeCacheCapable ? (answer.nodenames ?? []) : (answer.nodes?.items ?? []).map(({ metadata }) => metadata.name),
    );
    const rejected = new Map<string, Rejection>();
    for (const [name, reason] of Object.entries(answer.failednodes ?? {}))
      rejected.set(name, { plugin: this.name, status: unschedulable(reason) });
    for (const [name, reason] of Object.entries(answer.failedandunresolvablenodes ?? {}))
      rejected.set(name, { plugin: this.name, status: unschedulableAndUnresolvable(reason) });
    return { passed: nodes.filter(({ name }) => names.has(name)), rejected };
  }

  /** Returns the weighted score of each node by node name, converted to the scale of plugins. */
  async prioritize(pod: Pod, nodes: readonly NodeInfo[], signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
    const answer = priorities.parse(lowerKeys(await this.#call(this.#config.prioritizeVerb, this.#nodesOf(pod, nodes), signal)));
    return new Map((answer ?? []).map(({ host, score }) => [host, score * this.#config.weight * scoreScale]));
  }

  /** Returns the preemption candidates that the extender accepts, with the victims that the extender selects. */
  async processPreemption(pod: Pod, { candidates, snapshot, signal }: ExtenderPreemption): Promise<readonly PreemptionCandidate[]> {
    const { nodeCacheCapable, preemptVerb } = this.#config;
    const body = {
      Pod: pod,
      ...(nodeCacheCapable
        ? {
            NodeNameToMetaVictims: Object.fromEntries(
              candidates.map(({ node, victims: pods, pdbViolations }) => [
                node,
                { Pods: pods.map((each) => ({ UID: each.pod.metadata?.uid })), NumPDBViolations: pdbViolations },
              ]),
            ),
          }
        : {
            NodeNameToVictims: Object.fromEntries(
              candidates.map(({ node, victims: pods, pdbViolations }) => [
                node,
                { Pods: pods.map((each) => each.pod), NumPDBViolations: pdbViolations },
              ]),
            ),
          }),
    };
    const answer = preemptResult.parse(lowerKeys(await this.#call(preemptVerb, body, signal)));
    return Object.entries(answer.nodenametometavictims ?? {}).map(([node, { pods, numpdbviolations }]) => {
      const nodeInfo = snapshot.get(node);
      const found = (pods ?? []).map(({ uid }): PodInfo => {
        const victim = nodeInfo?.pods.find((each) => each.pod.metadata?.uid === uid);
        if (victim === undefined) throw new Error(`extender ${this.name} returned the pod ${uid}, which is not on node ${node}`);
        return victim;
      });
      return { node, victims: found, pdbViolations: numpdbviolations };
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
    const url = `${this.#config.urlPrefix.replace(/\/+$/, '')}/${verb}`.replace(/^http:/, this.#usesTls ? 'https:' : 'http:');
    const text = JSON.stringify(body);
    const late = AbortSignal.timeout(this.#config.httpTimeout);
    return new Promise((resolve, reject) => {
      const options = {
        method: 'POST',
        agent: this.#agent,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
        signal: AbortSignal.any([signal, late]),
      };
      const outgoing = this.#usesTls ? request(url, options) : plainRequest(url, options);
      const ends = connectionEnds(outgoing);
      rejectUpgrade(outgoing);
      outgoing.on('error', (cause) =>
        reject(new Error(requestErrorText('POST', url, late.aborted ? clientTimeout : goErrorText(cause, ends())), { cause })),
      );
      outgoing.on('response', (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxResponseBytes) outgoing.destroy(new Error(`the response is larger than ${maxResponseBytes} bytes`));
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
            reject(new Error(`extender ${url} did not return JSON`, { cause }));
          }
        });
      });
      outgoing.end(text);
    });
  }
}
