import { CelError, EvaluationSuspended } from '../values/cel-error.ts';
import { fn, traversal, type Library } from './library.ts';
import { opaque } from '../types/type.ts';
import { Opaque } from '../values/value.ts';

const prefix = 'kubernetes.authorization';
export const authorizerType = opaque(`${prefix}.Authorizer`);
export const resourceCheckType = opaque(`${prefix}.ResourceCheck`);
const checkCost = 350_000;

/** The name of the service account to check instead of the user of the request. */
export interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}
/** The attributes that an expression passes to an authorization check. */
export type AccessAttributes = { readonly verb: string; readonly account?: ServiceAccountName } & (
  | { readonly path: string }
  | {
      readonly path?: undefined;
      readonly group: string;
      readonly resource: string;
      readonly subresource: string;
      readonly namespace: string;
      readonly name: string;
    }
);
export interface AccessDecision {
  readonly decision: 'allow' | 'deny' | 'no-opinion';
  readonly reason?: string | undefined;
  /** The error message of a check that failed; absent if the check was made. */
  readonly error?: string | undefined;
}
export type Authorize = (question: AccessAttributes) => AccessDecision | Promise<AccessDecision>;

/** The `authorizer` variable of one request. Caches each decision, because an evaluation that waits for a decision is repeated. */
export class AuthorizerValue extends Opaque {
  readonly typeName = `${prefix}.Authorizer`;
  readonly #ask: Authorize;
  readonly #answers: Map<string, AccessDecision>;
  readonly #account: ServiceAccountName | undefined;
  constructor(ask: Authorize, account?: ServiceAccountName, answers = new Map<string, AccessDecision>()) {
    super();
    this.#ask = ask;
    this.#account = account;
    this.#answers = answers;
  }
  as(account: ServiceAccountName): AuthorizerValue {
    return new AuthorizerValue(this.#ask, account, this.#answers);
  }
  /**
   * Returns the decision for these attributes.
   * @throws EvaluationSuspended if the decision is not available yet; the evaluation must then be repeated
   */
  authorize(question: AccessAttributes): DecisionValue {
    const asked = this.#account === undefined ? question : { ...question, account: this.#account };
    const key = JSON.stringify(asked);
    const known = this.#answers.get(key);
    if (known !== undefined) return new DecisionValue(known);
    const answer = this.#ask(asked);
    if (!(answer instanceof Promise)) {
      this.#answers.set(key, answer);
      return new DecisionValue(answer);
    }
    throw new EvaluationSuspended(
      answer.then(
        (decision) => this.#answers.set(key, decision),
        (error: unknown) =>
          this.#answers.set(key, { decision: 'no-opinion', error: error instanceof Error ? error.message : String(error) }),
      ),
    );
  }
}

class PathCheck extends Opaque {
  readonly typeName = `${prefix}.PathCheck`;
  readonly authorizer: AuthorizerValue;
  readonly path: string;
  constructor(authorizer: AuthorizerValue, path: string) {
    super();
    this.authorizer = authorizer;
    this.path = path;
  }
}
class GroupCheck extends Opaque {
  readonly typeName = `${prefix}.GroupCheck`;
  readonly authorizer: AuthorizerValue;
  readonly group: string;
  constructor(authorizer: AuthorizerValue, group: string) {
    super();
    this.authorizer = authorizer;
    this.group = group;
  }
}
export interface CheckedResource {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
}
export class ResourceCheck extends Opaque {
  readonly typeName = `${prefix}.ResourceCheck`;
  readonly authorizer: AuthorizerValue;
  readonly resource: CheckedResource;
  constructor(authorizer: AuthorizerValue, of: CheckedResource) {
    super();
    this.authorizer = authorizer;
    this.resource = of;
  }
  with(more: Partial<CheckedResource>): ResourceCheck {
    return new ResourceCheck(this.authorizer, { ...this.resource, ...more });
  }
}
class DecisionValue extends Opaque {
  readonly typeName = `${prefix}.Decision`;
  readonly answer: AccessDecision;
  constructor(answer: AccessDecision) {
    super();
    this.answer = answer;
  }
}

const method = (type: string, signature: string, result: string) => `(${prefix}.${type}).${signature}: ${prefix}.${result}`;
const narrowing = (part: 'subresource' | 'namespace' | 'name') =>
  fn(method('ResourceCheck', `${part}(string)`, 'ResourceCheck'), (check: ResourceCheck, value: string) => check.with({ [part]: value }));

/**
 * Returns the estimated cost of parsing a selector and creating its list of requirements. Assumes one requirement, with a list and a
 * struct, for every two characters.
 */
const selectorCost = (length: number): number => 10 + traversal(length) + Math.ceil(length / 2) * 50;

export const authorizers: Library = {
  name: 'authorizer',
  functions: [
    fn(method('Authorizer', 'path(string)', 'PathCheck'), (authorizer: AuthorizerValue, path: string) => {
      if (path === '') throw new CelError('invalid-argument', 'path must not be empty');
      return new PathCheck(authorizer, path);
    }),
    fn(
      method('Authorizer', 'group(string)', 'GroupCheck'),
      (authorizer: AuthorizerValue, group: string) => new GroupCheck(authorizer, group),
    ),
    fn(
      method('Authorizer', 'serviceAccount(string, string)', 'Authorizer'),
      (authorizer: AuthorizerValue, namespace: string, name: string) => authorizer.as({ namespace, name }),
    ),
    fn(
      method('GroupCheck', 'resource(string)', 'ResourceCheck'),
      ({ authorizer, group }: GroupCheck, resource: string) =>
        new ResourceCheck(authorizer, { group, resource, subresource: '', namespace: '', name: '' }),
    ),
    // authorizers do not evaluate selectors; ignoring them is safe, because they only narrow a request
    ...['fieldSelector', 'labelSelector'].map((name) =>
      fn(method('ResourceCheck', `${name}(string)`, 'ResourceCheck'), (check: ResourceCheck, _selector: string) => check, {
        cost: (_, selector) => selectorCost(selector),
      }),
    ),
    narrowing('subresource'),
    narrowing('namespace'),
    narrowing('name'),
    fn(
      method('ResourceCheck', 'check(string)', 'Decision'),
      ({ authorizer, resource: of }: ResourceCheck, verb: string) => authorizer.authorize({ verb, ...of }),
      { cost: () => checkCost },
    ),
    fn(
      method('PathCheck', 'check(string)', 'Decision'),
      ({ authorizer, path }: PathCheck, verb: string) => authorizer.authorize({ verb, path }),
      {
        cost: () => checkCost,
      },
    ),
    fn(`(${prefix}.Decision).allowed(): bool`, ({ answer }: DecisionValue) => answer.decision === 'allow'),
    fn(`(${prefix}.Decision).reason(): string`, ({ answer }: DecisionValue) => answer.reason ?? ''),
    fn(`(${prefix}.Decision).errored(): bool`, ({ answer }: DecisionValue) => answer.error !== undefined),
    fn(`(${prefix}.Decision).error(): string`, ({ answer }: DecisionValue) => answer.error ?? ''),
  ],
};
