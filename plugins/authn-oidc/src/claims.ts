import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, dyn, map, string, type Type } from '@oarlock/cel/types/type';
import { itemsOf, isList, type Value } from '@oarlock/cel/values/value';
import { rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import type { JWTPayload } from 'jose';
import type { JwtConfig } from './config.ts';

/** The cost limit of one expression. */
const budget = 1_000_000;
const claimsType = map(string, dyn);

function program(source: string, variables: Readonly<Record<string, Type>>, where: string, expect?: readonly Type[]): Program {
  const compiled = compile(source, kubernetesEnvironment({ variables }), expect === undefined ? {} : { expect });
  if (compiled.program === undefined) throw new Error(`${where}: ${compiled.message}`);
  return compiled.program;
}

function textsOf(value: unknown): readonly string[] | undefined {
  if (typeof value === 'string') return [value];
  const items: unknown = isList(value as Value) ? itemsOf(value as never) : value;
  if (items === undefined || items === null) return [];
  return Array.isArray(items) && items.every((item) => typeof item === 'string') ? (items as string[]) : undefined;
}

interface MappedClaim {
  readonly values: readonly string[];
}

/** Maps the claims of a verified token to an identity, with compiled mappings and rules. */
export class ClaimMapper {
  readonly #username: (claims: JWTPayload) => MappedClaim | string;
  readonly #groups: (claims: JWTPayload) => MappedClaim | string;
  readonly #uid: (claims: JWTPayload) => MappedClaim | string;
  readonly #extra: readonly { readonly key: string; readonly values: (claims: JWTPayload) => MappedClaim | string }[];
  readonly #claimRules: readonly ((claims: JWTPayload) => string | undefined)[];
  readonly #userRules: readonly ((user: Value) => string | undefined)[];

  /** @throws Error for an expression that does not compile */
  constructor({ claimMappings: { username, groups, uid, extra }, claimValidationRules, userValidationRules }: JwtConfig) {
    this.#username = mapping(username, 'claimMappings.username');
    this.#groups = groups === undefined ? () => ({ values: [] }) : mapping(groups, 'claimMappings.groups');
    this.#uid = uid === undefined ? () => ({ values: [] }) : mapping(uid, 'claimMappings.uid');
    this.#extra = extra.map(({ key, valueExpression }) => ({
      key,
      values: mapping({ expression: valueExpression }, `claimMappings.extra[${key}]`),
    }));
    this.#claimRules = claimValidationRules.map((rule, at) => {
      if ('claim' in rule)
        return (claims) => (claims[rule.claim] === rule.requiredValue ? undefined : `the claim ${rule.claim} is not what it has to be`);
      const ready = program(rule.expression, { claims: claimsType }, `claimValidationRules[${at}]`, [bool]);
      return (claims) => requireTrue(ready, { claims: claims as Value }, rule.message);
    });
    this.#userRules = userValidationRules.map(({ expression, message }, at) => {
      const ready = program(expression, { user: dyn }, `userValidationRules[${at}]`, [bool]);
      return (user) => requireTrue(ready, { user }, message);
    });
  }

  map(claims: JWTPayload): AuthnResult {
    for (const rule of this.#claimRules) {
      const fault = rule(claims);
      if (fault !== undefined) return rejected(fault);
    }
    const username = this.#username(claims);
    const groups = this.#groups(claims);
    const uid = this.#uid(claims);
    for (const each of [username, groups, uid]) if (typeof each === 'string') return rejected(each);
    const [name] = (username as MappedClaim).values;
    if (name === undefined || name === '') return rejected('the token names no user');
    const extra: Record<string, readonly string[]> = {};
    for (const { key, values } of this.#extra) {
      const mapped = values(claims);
      if (typeof mapped === 'string') return rejected(mapped);
      const present = mapped.values.filter((value) => value !== '');
      if (present.length > 0) extra[key] = present;
    }
    const [id] = (uid as MappedClaim).values;
    const own = (groups as MappedClaim).values.filter((group) => group !== '');
    const identity: Identity = {
      name,
      groups: [...new Set([...own, 'system:authenticated'])],
      ...(id !== undefined && id !== '' && { uid: id }),
      ...(Object.keys(extra).length > 0 && { extra }),
    };
    const user = { username: name, uid: id ?? '', groups: own, extra } as unknown as Value;
    for (const rule of this.#userRules) {
      const fault = rule(user);
      if (fault !== undefined) return rejected(fault);
    }
    return { outcome: 'authenticated', identity };
  }
}

function requireTrue(ready: Program, bindings: Readonly<Record<string, Value>>, message: string): string | undefined {
  const { value, error } = ready.evaluate(bindings, budget);
  return error === undefined && value === true ? undefined : message || `validation expression '${ready.source}' failed`;
}

function mapping(
  how: { readonly claim: string; readonly prefix?: string } | { readonly expression: string },
  where: string,
): (claims: JWTPayload) => MappedClaim | string {
  if ('claim' in how) {
    const { claim, prefix = '' } = how;
    return (claims) => {
      const values = textsOf(claims[claim]);
      if (values === undefined) return `the claim ${claim} is neither a string nor a list of strings`;
      // an unverified address proves nothing
      if (claim === 'email' && claims['email_verified'] !== undefined && claims['email_verified'] !== true)
        return 'the email address is not verified';
      return { values: values.map((value) => `${prefix}${value}`) };
    };
  }
  const ready = program(how.expression, { claims: claimsType }, where);
  return (claims) => {
    const { value, error } = ready.evaluate({ claims: claims as Value }, budget);
    if (error !== undefined) return `${where} cannot be evaluated for this token`;
    const values = textsOf(value);
    return values === undefined ? `${where} is neither a string nor a list of strings` : { values };
  };
}
