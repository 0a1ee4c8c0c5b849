import { setTimeout as delay } from 'node:timers/promises';
import { Api, type Answer } from '../../harness/api.ts';
import { Manifests } from './manifests.ts';
import { isActive, type Pod, type StoredObject } from './model/stored-object.ts';
import type { ObjectIndex } from './model/object-index.ts';

export const homes = ['soak-0', 'soak-1', 'soak-2', 'soak-quota'] as const;
const merge = { 'content-type': 'application/merge-patch+json' };
const places = {
  Deployment: 'apis/apps/v1/*/deployments',
  StatefulSet: 'apis/apps/v1/*/statefulsets',
  DaemonSet: 'apis/apps/v1/*/daemonsets',
  Job: 'apis/batch/v1/*/jobs',
  CronJob: 'apis/batch/v1/*/cronjobs',
  PodDisruptionBudget: 'apis/policy/v1/*/poddisruptionbudgets',
  HorizontalPodAutoscaler: 'apis/autoscaling/v2/*/horizontalpodautoscalers',
  Widget: 'apis/soak.example.com/v1/*/widgets',
  ConfigMap: 'api/v1/*/configmaps',
  Pod: 'api/v1/*/pods',
} as const;
export type Place = keyof typeof places;
export const pathOf = (kind: Place, namespace: string, name?: string): string =>
  `/${places[kind].replace('*', `namespaces/${namespace}`)}${name === undefined ? '' : `/${name}`}`;
/** The maximum number of objects of a kind in a namespace. */
const most: Readonly<Partial<Record<Place, number>>> = { Deployment: 3, StatefulSet: 2, DaemonSet: 1, Job: 4, CronJob: 1 };

/** A user that creates, changes and deletes objects continuously, driven by a seed. */
export class User {
  readonly evicted = new Set<string>();
  readonly forced = new Set<string>();
  readonly odd: string[] = [];
  readonly rejections = new Map<string, number>();
  done = 0;
  readonly #kubeconfig: string;
  readonly #world: ObjectIndex;
  readonly #make: Manifests;
  readonly #groups: number;
  #api: Api | undefined;
  #names = 0;

  constructor(kubeconfig: string, world: ObjectIndex, random: () => number, groups: number) {
    this.#kubeconfig = kubeconfig;
    this.#world = world;
    this.#make = new Manifests(random);
    this.#groups = groups;
  }

  /** @param everyMs the maximum pause between two requests of one worker */
  async run(workers: number, everyMs: number, signal: AbortSignal): Promise<void> {
    const work = async () => {
      while (!signal.aborted) {
        await this.step();
        await delay(this.#make.int(0, everyMs), undefined, { signal }).catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: workers }, work));
  }

  close(): void {
    this.#api?.close();
  }

  /** Sends a request and returns its result; requests without a response are the chaos's. */
  async ask(method: string, path: string, body?: object, headers?: Readonly<Record<string, string>>): Promise<Answer | undefined> {
    this.#api ??= await Api.of(this.#kubeconfig);
    const api = this.#api;
    try {
      const answer = await api.call(method, path, { timeoutMs: 15_000, ...(body && { body }), ...(headers && { headers }) });
      const { status } = answer;
      if (status < 300) this.done++;
      else {
        const { reason = '', message = '' } = JSON.parse(answer.body) as { readonly reason?: string; readonly message?: string };
        const rejection = `${status} ${reason}: ${message.replace(/"[^"]*"|[a-z]+-\d+[-a-z0-9]*/g, '*').slice(0, 160)}`;
        this.rejections.set(rejection, (this.rejections.get(rejection) ?? 0) + 1);
        if (![403, 404, 409, 429, 500, 503, 504].includes(status))
          this.odd.push(`${method} ${path}: ${status} ${answer.body.slice(0, 400)} for ${JSON.stringify(body)}`);
      }
      return answer;
    } catch {
      if (this.#api === api) this.#api = undefined;
      api.close();
      return undefined;
    }
  }

  async step(): Promise<void> {
    const { chance, pick, int } = {
      chance: (part: number) => this.#make.chance(part),
      pick: <T>(...list: readonly T[]) => this.#make.pick(...list),
      int: (a: number, b: number) => this.#make.int(a, b),
    };
    const namespace = pick(...homes);
    const what = int(0, 100);
    if (what < 20) return this.#create(namespace);
    if (what < 40) return this.#scale(namespace);
    if (what < 55) return this.#roll(namespace);
    if (what < 60) return this.#toggle(namespace);
    if (what < 68) return this.#evict(namespace, chance(0.7));
    if (what < 74) return this.#owned(namespace);
    if (what < 78) return this.#ephemeral();
    if (what < 88) return this.#remove(namespace, pick('Background', 'Foreground', 'Background'));
    if (what < 92) return this.#quota(namespace);
    return this.#owned('soak-quota');
  }

  #of(kind: Place, namespace: string): StoredObject | undefined {
    const all = [...this.#world.kind(kind, namespace)].filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    return all.length === 0 ? undefined : this.#make.pick(...all);
  }
  #name(word: string): string {
    return `${word}-${++this.#names}`;
  }

  async #create(namespace: string): Promise<void> {
    const kind = this.#make.pick(
      'Deployment',
      'StatefulSet',
      'DaemonSet',
      'Job',
      'Job',
      'CronJob',
      'PodDisruptionBudget',
      'HorizontalPodAutoscaler',
    );
    if ([...this.#world.kind(kind, namespace)].length >= (most[kind] ?? 2)) return;
    const target = this.#of('Deployment', namespace)?.metadata.name;
    const object = {
      Deployment: () => this.#make.deployment(this.#name('web')),
      StatefulSet: () => this.#make.statefulSet(this.#name('db')),
      DaemonSet: () => this.#make.daemonSet(this.#name('agent'), this.#groups),
      Job: () => this.#make.job(this.#name('job')),
      CronJob: () => this.#make.cronJob(this.#name('cron')),
      PodDisruptionBudget: () => target && this.#make.budget(target, target),
      HorizontalPodAutoscaler: () => target && this.#make.autoscaler(target),
    }[kind]();
    if (object) await this.ask('POST', pathOf(kind, namespace), object as object);
  }

  async #patch(kind: Place, thing: StoredObject | undefined, body: object): Promise<void> {
    if (thing) await this.ask('PATCH', pathOf(kind, thing.metadata.namespace ?? '', thing.metadata.name), body, merge);
  }

  async #scale(namespace: string): Promise<void> {
    const kind = this.#make.pick('Deployment', 'StatefulSet', 'Job');
    const thing = this.#of(kind, namespace);
    const count = this.#make.int(0, kind === 'Deployment' ? 11 : 6);
    if (kind !== 'Job') return this.#patch(kind, thing, { spec: { replicas: count } });
    const { completions, completionMode } = (thing?.spec ?? {}) as { readonly completions?: number; readonly completionMode?: string };
    const elastic = completionMode === 'Indexed' && completions !== undefined && count > 0 && !('successPolicy' in (thing?.spec ?? {}));
    return this.#patch('Job', thing, { spec: { parallelism: count, ...(elastic && { completions: count }) } });
  }

  async #roll(namespace: string): Promise<void> {
    const kind = this.#make.pick('Deployment', 'Deployment', 'StatefulSet', 'DaemonSet');
    const thing = this.#of(kind, namespace);
    await this.#patch(kind, thing, { spec: { template: { metadata: { annotations: { rolled: String(this.#make.int(0, 4)) } } } } });
  }

  async #toggle(namespace: string): Promise<void> {
    const kind = this.#make.pick('Deployment', 'Job', 'CronJob');
    await this.#patch(kind, this.#of(kind, namespace), {
      spec: { [kind === 'Deployment' ? 'paused' : 'suspend']: this.#make.chance(0.5) },
    });
  }

  /** Deletes a pod through the eviction API, gracefully, or with grace period 0. */
  async #evict(namespace: string, asked: boolean): Promise<void> {
    const pods = [...this.#world.kind<Pod>('Pod', namespace)].filter(isActive);
    if (pods.length === 0) return;
    const { name, uid } = this.#make.pick(...pods).metadata;
    const path = pathOf('Pod', namespace, name);
    const preconditions = { uid };
    if (asked) {
      this.evicted.add(uid);
      const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace }, deleteOptions: { preconditions } };
      await this.ask('POST', `${path}/eviction`, body);
      return;
    }
    const forced = this.#make.chance(0.3);
    if (forced) this.forced.add(uid);
    await this.ask('DELETE', path, { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, ...(forced && { gracePeriodSeconds: 0 }) });
  }

  /** Objects owned by others, custom resources included. */
  async #owned(namespace: string): Promise<void> {
    const name = this.#name('widget');
    const answer = await this.ask('POST', pathOf('Widget', namespace), {
      apiVersion: 'soak.example.com/v1',
      kind: 'Widget',
      metadata: { name },
      spec: { size: 1 },
    });
    if (answer?.status !== 201) return;
    const { metadata } = JSON.parse(answer.body) as StoredObject;
    const owner = {
      apiVersion: 'soak.example.com/v1',
      kind: 'Widget',
      name,
      uid: metadata.uid,
      blockOwnerDeletion: this.#make.chance(0.5),
    };
    for (let at = 0; at < 3; at++)
      await this.ask('POST', pathOf('ConfigMap', namespace), {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: `${name}-${at}`, ownerReferences: [owner] },
        data: { at: String(at) },
      });
    const propagationPolicy = this.#make.pick('Background', 'Foreground');
    await this.ask('DELETE', pathOf('Widget', namespace, name), { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy });
  }

  async #ephemeral(): Promise<void> {
    const there = [...this.#world.kind('Namespace')].filter(
      ({ metadata }) => metadata.name.startsWith('passing-') && metadata.deletionTimestamp === undefined,
    );
    if (there.length > 2) {
      await this.ask('DELETE', `/api/v1/namespaces/${this.#make.pick(...there).metadata.name}`);
      return;
    }
    const name = this.#name('passing');
    await this.ask('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    await this.ask('POST', pathOf('Deployment', name), this.#make.deployment('web'));
    await this.ask('POST', pathOf('Job', name), this.#make.job('job'));
    await this.ask('POST', pathOf('StatefulSet', name), this.#make.statefulSet('db'));
    await this.#owned(name);
  }

  async #remove(namespace: string, propagationPolicy: string): Promise<void> {
    const kind = this.#make.pick(
      'Deployment',
      'StatefulSet',
      'DaemonSet',
      'Job',
      'Job',
      'CronJob',
      'PodDisruptionBudget',
      'HorizontalPodAutoscaler',
    );
    const thing = this.#of(kind, namespace);
    if (thing)
      await this.ask('DELETE', pathOf(kind, namespace, thing.metadata.name), {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        propagationPolicy,
      });
  }

  async #quota(namespace: string): Promise<void> {
    if (namespace !== 'soak-quota') return;
    const hard = {
      pods: String(this.#make.int(4, 16)),
      'requests.cpu': String(this.#make.int(6, 30)),
      'count/configmaps': String(this.#make.int(2, 9)),
    };
    await this.ask('PATCH', `/api/v1/namespaces/soak-quota/resourcequotas/limit`, { spec: { hard } }, merge);
  }
}
