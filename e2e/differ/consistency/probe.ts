import { differencesOf, type Difference } from '../compare/difference.ts';
import { decodeBody, normalize, type NormalAnswer } from '../compare/normalize.ts';
import { listPath, objectOf, type CorpusKind } from '../corpus/kinds.ts';
import { describeRequest, isFields, resolveRequest, valueAt, type Answer, type ApiRequest, type Fields } from '../request.ts';
import type { Target } from '../target/target.ts';

/** Two answers that should be equal and are not, or an answer that is wrong by itself. */
export interface Finding {
  readonly check: string;
  readonly kind: string;
  readonly what: string;
  readonly request: string;
  readonly differences: readonly Difference[];
}

/** Counts comparisons and collects findings. */
export class Findings {
  readonly all: Finding[] = [];
  comparisons = 0;
  requests = 0;
}

/** An object that no other check uses, with a name of its own. */
export interface FreshObject {
  readonly name: string;
  readonly path: string;
  readonly object: Fields & { readonly metadata: Fields };
}

export interface Exchange {
  readonly request: ApiRequest;
  readonly answer: Answer;
  readonly body: unknown;
}

export interface ProbeOptions {
  readonly target: Target;
  readonly kind: CorpusKind;
  readonly namespace: string;
  readonly check: string;
  readonly findings: Findings;
  /** Returns a DNS label that was not returned before; all of them have the same length. */
  readonly newName: () => string;
}

/** The parts of an answer that a comparison ignores. */
export interface Ignored {
  /** Names of fields of `metadata`. */
  readonly metadata?: readonly string[];
  readonly headers?: boolean;
  readonly status?: boolean;
}

/** Sends the requests of one check to one kind, and compares answers. */
export class Probe {
  readonly kind: CorpusKind;
  readonly namespace: string;
  readonly #options: ProbeOptions;
  readonly #fresh: FreshObject[] = [];
  readonly #bases: string[] = [];

  constructor(options: ProbeOptions) {
    this.kind = options.kind;
    this.namespace = options.namespace;
    this.#options = options;
  }

  listOf(kind: CorpusKind): string {
    return listPath(kind, this.namespace);
  }
  get list(): string {
    return this.listOf(this.kind);
  }

  /** Returns an object with a new name, which is not stored yet. */
  fresh(kind: CorpusKind = this.kind): FreshObject {
    const base = this.#options.newName();
    const object = objectOf(kind, base);
    const name = String(object.metadata['name']);
    this.#bases.push(base, name);
    const fresh = { name, path: `${this.listOf(kind)}/${name}`, object };
    this.#fresh.push(fresh);
    return fresh;
  }

  async send(request: ApiRequest): Promise<Exchange> {
    const resolved = resolveRequest(request, { run: '', namespace: this.namespace }, []);
    const answer = await this.#options.target.send(resolved);
    this.#options.findings.requests += 1;
    return { request: resolved, answer, body: decodeBody(answer) };
  }
  create(object: unknown, query = '', kind = this.kind): Promise<Exchange> {
    return this.send({ method: 'POST', path: `${this.listOf(kind)}${query}`, body: object });
  }
  get(path: string, accept = 'application/json'): Promise<Exchange> {
    return this.send({ method: 'GET', path, headers: { accept } });
  }
  patch(path: string, type: PatchName, body: unknown): Promise<Exchange> {
    return this.send({ method: 'PATCH', path, headers: { 'content-type': patchTypes[type] }, body });
  }

  /** Compares two answers; names, uids, times and resource versions do not count. */
  expectSame(what: string, left: Exchange, right: Exchange, ignored: Ignored = {}): void {
    const [a, b] = [left, right].map(({ answer }) => without(this.#normal(answer), ignored));
    if (a === undefined || b === undefined) return;
    this.#report(what, right.request, differencesOf(a, ignored.status === true ? { ...b, status: a.status } : b));
  }

  /** Compares two values, such as parts of bodies. */
  expectEqual(what: string, request: ApiRequest, [left, right]: readonly [unknown, unknown]): void {
    const answer = (body: unknown): NormalAnswer =>
      this.#normal({
        status: 200,
        headers: { 'content-type': 'application/json', date: new Date().toUTCString() },
        body: Buffer.from(JSON.stringify(body ?? null)),
      });
    this.#report(what, request, differencesOf(answer(left), answer(right)));
  }

  expectStatus(what: string, { request, answer, body }: Exchange, ...statuses: readonly number[]): boolean {
    const isExpected = statuses.includes(answer.status);
    const subject = `${answer.status} ${JSON.stringify(valueAt(body, 'message') ?? '')}`;
    this.#report(what, request, isExpected ? [] : [{ part: 'code', path: '', reference: statuses.join(' or '), subject }]);
    return isExpected;
  }

  /** Deletes the cluster-scoped objects that the check stored. Objects in the namespace of the kind are deleted with it at the end of the run. */
  async cleanUp(): Promise<void> {
    if (this.kind.kind.namespaced) return;
    for (const { path } of this.#fresh) await this.send({ method: 'DELETE', path: `${path}?gracePeriodSeconds=0` });
  }

  #normal(answer: Answer): NormalAnswer {
    const [run = '', ...others] = this.#bases.toSorted((a, b) => b.length - a.length);
    const normal = normalize(answer, { names: { run: run === '' ? '\0' : run, namespace: '' }, server: this.#options.target.server });
    return { ...normal, body: others.reduce((body, name) => replaceName(body, name), normal.body) };
  }

  #report(what: string, request: ApiRequest, differences: readonly Difference[]): void {
    const { check, kind, findings } = this.#options;
    findings.comparisons += 1;
    if (differences.length > 0) findings.all.push({ check, kind: kind.id, what, request: describeRequest(request), differences });
  }
}

export const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;
export type PatchName = keyof typeof patchTypes;

function replaceName(value: unknown, name: string): unknown {
  if (typeof value === 'string') return value.replaceAll(name, '<run>');
  if (Array.isArray(value)) return value.map((each) => replaceName(each, name));
  if (!isFields(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key.replaceAll(name, '<run>'), replaceName(each, name)]));
}

function without(answer: NormalAnswer, { metadata = [], headers = false }: Ignored): NormalAnswer {
  const { body } = answer;
  const kept = headers ? { ...answer, headers: {}, warnings: [] } : answer;
  if (!isFields(body) || !isFields(body['metadata'])) return kept;
  const fields = Object.entries(body['metadata']).filter(([name]) => !metadata.includes(name));
  return { ...kept, body: { ...body, metadata: Object.fromEntries(fields) } };
}
