import { setTimeout as delay } from 'node:timers/promises';
import { Api, type Answer, type PodItem } from '../../../harness/api.ts';
import { churnPod, policy, service } from './pods.ts';
import { Manifests } from '../manifests.ts';

const home = '/api/v1/namespaces/default';
const policies = '/apis/networking.k8s.io/v1/namespaces/default/networkpolicies';
const merge = { 'content-type': 'application/merge-patch+json' };
const [mostPods, mostServices, mostPolicies] = [9, 3, 3];

/** A user that creates and deletes pods, Services and policies on one node, driven by a seed. */
export class NodeUser {
  readonly odd: string[] = [];
  done = 0;
  readonly #kubeconfig: string;
  readonly #make: Manifests;
  readonly #pods = new Set<string>();
  readonly #services = new Set<string>();
  readonly #policies = new Set<string>();
  #api: Api | undefined;
  #names = 0;

  constructor(kubeconfig: string, random: () => number) {
    this.#kubeconfig = kubeconfig;
    this.#make = new Manifests(random);
  }

  /** Its pods that are not being deleted. */
  get pods(): readonly string[] {
    return [...this.#pods];
  }

  async ask(method: string, path: string, body?: object, headers?: Readonly<Record<string, string>>): Promise<Answer | undefined> {
    this.#api ??= await Api.of(this.#kubeconfig);
    const api = this.#api;
    try {
      const answer = await api.call(method, path, { timeoutMs: 15_000, ...(body && { body }), ...(headers && { headers }) });
      if (answer.status < 300) this.done++;
      // 400: logs of what has not begun
      else if (![400, 404, 409, 500, 503, 504].includes(answer.status))
        this.odd.push(`${method} ${path}: ${answer.status} ${answer.body.slice(0, 300)}`);
      return answer;
    } catch {
      if (this.#api === api) this.#api = undefined;
      api.close();
      return undefined;
    }
  }

  close(): void {
    this.#api?.close();
  }

  async run(everyMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#step();
      await delay(this.#make.int(0, everyMs), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Deletes everything that it created. */
  async removeAll(): Promise<void> {
    for (const path of [`${home}/pods`, `${home}/services`, `${home}/persistentvolumeclaims`])
      await this.#must(() => this.ask('DELETE', `${path}?labelSelector=app!%3Dsteady,!component`));
    await this.#must(() => this.ask('DELETE', policies));
  }

  async #must(work: () => Promise<Answer | undefined>): Promise<void> {
    // old servers cannot delete collections of services
    for (;;) {
      const answer = await work();
      if (answer !== undefined && answer.status < 500) {
        if (answer.status >= 300) throw new Error(`the soak cannot clean up: ${answer.status} ${answer.body.slice(0, 300)}`);
        return;
      }
      await delay(200);
    }
  }

  async #step(): Promise<void> {
    const make = this.#make;
    const what = make.int(0, 100);
    if (what < 38) return this.#create();
    if (what < 72) return this.#remove();
    if (what < 80) return this.#service();
    if (what < 88) return this.#policy();
    if (what < 94) {
      await this.ask('PATCH', `${home}/configmaps/settings`, { data: { one: String(make.int(0, 1000)) } }, merge);
      return;
    }
    const name = make.pick(...this.#pods);
    if (name !== undefined) await this.ask('GET', `${home}/pods/${name}/log?container=main`);
  }

  async #create(): Promise<void> {
    if (this.#pods.size >= mostPods) return;
    const name = `churn-${++this.#names}`;
    const make = this.#make;
    const { pod, claims } = churnPod(name, {
      int: (a, b) => make.int(a, b),
      chance: (part) => make.chance(part),
      pick: (...list) => make.pick(...list),
    });
    for (const claim of claims) await this.ask('POST', `${home}/persistentvolumeclaims`, claim);
    await this.ask('POST', `${home}/pods`, pod);
    this.#pods.add(name);
  }

  async #remove(): Promise<void> {
    const name = this.#make.pick(...this.#pods);
    if (name === undefined) return;
    const first = this.#make.chance(0.3);
    const claims = async () => {
      for (const kind of ['claim', 'block']) await this.ask('DELETE', `${home}/persistentvolumeclaims/${name}-${kind}`);
    };
    if (first) await claims();
    const now = this.#make.chance(0.25) ? '?gracePeriodSeconds=0' : '';
    const answer = await this.ask('DELETE', `${home}/pods/${name}${now}`);
    if (answer === undefined || answer.status >= 500) return;
    if (!first) await claims();
    this.#pods.delete(name);
  }

  async #service(): Promise<void> {
    const [oldest] = this.#services;
    if (this.#services.size >= mostServices && oldest !== undefined) {
      const answer = await this.ask('DELETE', `${home}/services/${oldest}`);
      if (answer && answer.status < 500) this.#services.delete(oldest);
      return;
    }
    const name = `churn-${++this.#names}`;
    this.#services.add(name);
    await this.ask('POST', `${home}/services`, service(name, this.#make.pick('a', 'b', 'c'), this.#make.pick('ClusterIP', 'NodePort')));
  }

  async #policy(): Promise<void> {
    const [oldest] = this.#policies;
    if (this.#policies.size >= mostPolicies && oldest !== undefined) {
      const answer = await this.ask('DELETE', `${policies}/${oldest}`);
      if (answer && answer.status < 500) this.#policies.delete(oldest);
      return;
    }
    const name = `churn-${++this.#names}`;
    this.#policies.add(name);
    const make = this.#make;
    await this.ask(
      'POST',
      policies,
      policy(name, make.pick('a', 'b', 'c'), {
        int: (a, b) => make.int(a, b),
        chance: (part) => make.chance(part),
        pick: (...list) => make.pick(...list),
      }),
    );
  }

  async list<T>(path: string): Promise<readonly T[] | undefined> {
    const answer = await this.ask('GET', path);
    return answer?.status === 200 ? (JSON.parse(answer.body) as { readonly items: readonly T[] }).items : undefined;
  }
  podItems(): Promise<readonly PodItem[] | undefined> {
    return this.list<PodItem>(`${home}/pods`);
  }
}
