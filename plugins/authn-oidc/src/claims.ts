import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { children } from '@oarlock/cel/literals';
import { compile, type Program } from '@oarlock/cel/program';
import type { Expr } from '@oarlock/cel/syntax/ast';
import { bool, dyn, map, string, type Type } from '@oarlock/cel/types/type';
import { itemsOf, isList, type Value } from '@oarlock/cel/values/value';
import { rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import type { JWTPayload } from 'jose';
import type { JwtConfig } from './config.ts';

/** The cost limit of one expression. */
const budget = 1_000_000;
const claimsType = map(string, dyn);

interface MappedClaim {
  readonly values: readonly string[];
}
/** Returns the mapped values, or the reason why they cannot be mapped. */
type ClaimMapping = (claims: JWTPayload) => MappedClaim | string;
/** A validation rule. Returns the reason why the rule rejects the token, or undefined if the rule accepts the token. */
type Rule<T> = (subject: T) => string | undefined;
type MappingSource = { readonly claim: string; readonly prefix?: string } | { readonly expression: string };

/** Maps the claims of a verified ID token to a Kubernetes user, by the claim mappings and validation rules of a JWT authenticator. */
export class ClaimMapper {
  readonly #username: ClaimMapping;
  readonly #groups: ClaimMapping;
  readonly #uid: ClaimMapping;
  readonly #extra: readonly { readonly key: string; readonly values: ClaimMapping }[];
  readonly #claimRules: readonly Rule<JWTPayload>[];
  readonly #userRules: readonly Rule<Value>[];

  /**
   * Compiles the CEL expressions of the configuration. @throws Error if an expression does not compile, or if the username comes from the
   * claim `email` and no expression uses `email_verified`
   */
  constructor(config: JwtConfig) {
    const { username, groups, uid, extra } = config.claimMappings;
    requireVerifiedEmail(config);
    this.#username = mapping(username, 'claimMappings.username');
    this.#groups = groups === undefined ? () => ({ values: [] }) : mapping(groups, 'claimMappings.groups');
    this.#uid = uid === undefined ? () => ({ values: [] }) : mapping(uid, 'claimMappings.uid');
    this.#extra = extra.map(({ key, valueExpression }) => ({
      key,
      values: mapping({ expression: valueExpression }, `claimMappings.extra[${key}]`),
    }));
    this.#claimRules = config.claimValidationRules.map(claimRule);
    this.#userRules = config.userValidationRules.map(userRule);
  }

  map(claims: JWTPayload): AuthnResult {
    for (const rule of this.#claimRules) {
      const reason = rule(claims);
      if (reason !== undefined) return rejected(reason);
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
    const mappedGroups = (groups as MappedClaim).values.filter((group) => group !== '');
    const identity: Identity = {
      name,
      groups: [...new Set([...mappedGroups, 'system:authenticated'])],
      ...(id !== undefined && id !== '' && { uid: id }),
      ...(Object.keys(extra).length > 0 && { extra }),
    };
    const user = { username: name, uid: id ?? '', groups: mappedGroups, extra } as unknown as Value;
    for (const rule of this.#userRules) {
      const reason = rule(user);
      if (reason !== undefined) return rejected(reason);
    }
    return { outcome: 'authenticated', identity };
  }
}

function claimRule(rule: JwtConfig['claimValidationRules'][number], index: number): Rule<JWTPayload> {
  if ('claim' in rule)
    return (claims) =>
      claimOf(claims, rule.claim) === rule.requiredValue ? undefined : `the claim ${rule.claim} does not have the required value`;
  const program = compileExpression(rule.expression, {
    variables: { claims: claimsType },
    where: `claimValidationRules[${index}]`,
    expect: [bool],
  });
  return (claims) => requireTrue(program, { claims: claims as Value }, rule.message);
}

function userRule({ expression, message }: JwtConfig['userValidationRules'][number], index: number): Rule<Value> {
  const program = compileExpression(expression, { variables: { user: dyn }, where: `userValidationRules[${index}]`, expect: [bool] });
  return (user) => requireTrue(program, { user }, message);
}

function requireTrue(program: Program, bindings: Readonly<Record<string, Value>>, message: string): string | undefined {
  const { value, error } = program.evaluate(bindings, budget);
  return error === undefined && value === true ? undefined : message || `validation expression '${program.source}' failed`;
}

function mapping(source: MappingSource, where: string): ClaimMapping {
  return 'claim' in source ? mappingOfClaim(source) : mappingOfExpression(source.expression, where);
}

function mappingOfClaim({ claim, prefix = '' }: { readonly claim: string; readonly prefix?: string }): ClaimMapping {
  return (claims) => {
    const values = textsOf(claimOf(claims, claim));
    if (values === undefined) return `the claim ${claim} is neither a string nor a list of strings`;
    // any user of the issuer can enter an address that is not verified
    const verified = claimOf(claims, 'email_verified');
    if (claim === 'email' && verified !== undefined && verified !== true) return 'the email address is not verified';
    return { values: values.map((value) => `${prefix}${value}`) };
  };
}

function mappingOfExpression(expression: string, where: string): ClaimMapping {
  const program = compileExpression(expression, { variables: { claims: claimsType }, where });
  return (claims) => {
    const { value, error } = program.evaluate({ claims: claims as Value }, budget);
    if (error !== undefined) return `${where} cannot be evaluated for this token`;
    const values = textsOf(value);
    return values === undefined ? `${where} is neither a string nor a list of strings` : { values };
  };
}

interface CompileOptions {
  readonly variables: Readonly<Record<string, Type>>;
  /** The field of the configuration, for messages. */
  readonly where: string;
  readonly expect?: readonly Type[];
}

/** @throws Error if the expression does not compile */
function compileExpression(source: string, { variables, where, expect }: CompileOptions): Program {
  const compiled = compile(source, kubernetesEnvironment({ variables }), expect === undefined ? {} : { expect });
  if (compiled.program === undefined) throw new Error(`${where}: ${compiled.message}`);
  return compiled.program;
}

/** Returns a claim of the token itself: names such as `constructor` are properties of every object. */
const claimOf = (claims: JWTPayload, name: string): unknown => (Object.hasOwn(claims, name) ? claims[name] : undefined);

/** Returns a string or a list of strings as a list; undefined for other values. */
function textsOf(value: unknown): readonly string[] | undefined {
  if (typeof value === 'string') return [value];
  const items: unknown = isList(value as Value) ? itemsOf(value as never) : value;
  if (items === undefined || items === null) return [];
  return Array.isArray(items) && items.every((item) => typeof item === 'string') ? (items as string[]) : undefined;
}

/** @throws Error if an expression takes the user name from an email address and none checks that it is verified, as upstream's validation */
function requireVerifiedEmail({ claimMappings: { username, extra }, claimValidationRules }: JwtConfig): void {
  if (!('expression' in username) || !usesClaim(username.expression, 'email')) return;
  const rules = claimValidationRules.flatMap((rule) => ('expression' in rule ? [rule.expression] : []));
  const expressions = [username.expression, ...extra.map(({ valueExpression }) => valueExpression), ...rules];
  if (!expressions.some((each) => usesClaim(each, 'email_verified')))
    throw new Error(
      'claimMappings.username.expression: claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression',
    );
}

function usesClaim(source: string, claim: string): boolean {
  const { program } = compile(source, kubernetesEnvironment({ variables: { claims: claimsType } }));
  const uses = (expr: Expr): boolean =>
    (expr.kind === 'select' && expr.field === claim && expr.operand.kind === 'ident' && expr.operand.name === 'claims') ||
    children(expr).some(uses);
  return program !== undefined && uses(program.checked.expr);
}
