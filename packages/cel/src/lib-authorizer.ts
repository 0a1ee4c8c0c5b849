import { CelError, Suspended } from './cel-error.ts';
import { fn, traversal, type Library } from './library.ts';
import { opaque } from './type.ts';
import { Opaque } from './value.ts';

const prefix = 'kubernetes.authorization';
export const authorizerType = opaque(`${prefix}.Authorizer`);
export const resourceCheckType = opaque(`${prefix}.ResourceCheck`);
const checkCost = 350_000;

/** Of a service account instead of the user of the request. */
export interface Account {
  readonly namespace: string;
  readonly name: string;
}
/** What an expression asks whether it is allowed. */
export type AccessQuestion = { readonly verb: string; readonly account?: Account } & (
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
export interface AccessAnswer {
  readonly decision: 'allow' | 'deny' | 'no-opinion';
  readonly because?: string | undefined;
  /** Why there is no answer. */
  readonly error?: string | undefined;
}
export type Ask = (question: AccessQuestion) => AccessAnswer | Promise<AccessAnswer>;

/** One for each request: it keeps the answers, so that an evaluation that is repeated finds them. */
export class AuthorizerValue extends Opaque {
  readonly typeName = `${prefix}.Authorizer`;
  readonly #ask: Ask;
  readonly #answers: Map<string, AccessAnswer>;
  readonly #account: Account | undefined;
  constructor(ask: Ask, account?: Account, answers = new Map<string, AccessAnswer>()) {
    super();
    this.#ask = ask;
    this.#account = account;
    this.#answers = answers;
  }
  as(account: Account): AuthorizerValue {
    return new AuthorizerValue(this.#ask, account, this.#answers);
  }
  /** @throws Suspended when the answer must be waited for */
  decide(question: AccessQuestion): DecisionValue {
    const asked = this.#account === undefined ? question : { ...question, account: this.#account };
    const key = JSON.stringify(asked);
    const known = this.#answers.get(key);
    if (known !== undefined) return new DecisionValue(known);
    const answer = this.#ask(asked);
    if (!(answer instanceof Promise)) {
      this.#answers.set(key, answer);
      return new DecisionValue(answer);
    }
    throw new Suspended(
      answer.then(
        (settled) => this.#answers.set(key, settled),
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
  readonly of: CheckedResource;
  constructor(authorizer: AuthorizerValue, of: CheckedResource) {
    super();
    this.authorizer = authorizer;
    this.of = of;
  }
  with(more: Partial<CheckedResource>): ResourceCheck {
    return new ResourceCheck(this.authorizer, { ...this.of, ...more });
  }
}
class DecisionValue extends Opaque {
  readonly typeName = `${prefix}.Decision`;
  readonly answer: AccessAnswer;
  constructor(answer: AccessAnswer) {
    super();
    this.answer = answer;
  }
}

const method = (type: string, signature: string, result: string) => `(${prefix}.${type}).${signature}: ${prefix}.${result}`;
const narrowing = (part: 'subresource' | 'namespace' | 'name') =>
  fn(method('ResourceCheck', `${part}(string)`, 'ResourceCheck'), (check: ResourceCheck, value: string) => check.with({ [part]: value }));

/** Of reading a selector, and of what is made of it: a list, with a list and a struct for each requirement, of two characters at least. */
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
    // the authorizers decide without selectors, which only ever narrow
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
      ({ authorizer, of }: ResourceCheck, verb: string) => authorizer.decide({ verb, ...of }),
      { cost: () => checkCost },
    ),
    fn(
      method('PathCheck', 'check(string)', 'Decision'),
      ({ authorizer, path }: PathCheck, verb: string) => authorizer.decide({ verb, path }),
      {
        cost: () => checkCost,
      },
    ),
    fn(`(${prefix}.Decision).allowed(): bool`, ({ answer }: DecisionValue) => answer.decision === 'allow'),
    fn(`(${prefix}.Decision).reason(): string`, ({ answer }: DecisionValue) => answer.because ?? ''),
    fn(`(${prefix}.Decision).errored(): bool`, ({ answer }: DecisionValue) => answer.error !== undefined),
    fn(`(${prefix}.Decision).error(): string`, ({ answer }: DecisionValue) => answer.error ?? ''),
  ],
};
