import { duplicate, invalid, required, tooLong, tooMany } from '../../field/field-error.ts';
import type {
  MatchCondition,
  MatchResources,
  MutatingAdmissionPolicy,
  MutatingWebhook,
  MutatingWebhookConfiguration,
  RuleWithOperations,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingWebhook,
  ValidatingWebhookConfiguration,
  WebhookClientConfig,
} from '../../generated/types/admissionregistration-v1.ts';
import { isDns1123Label, isDns1123Subdomain, isQualifiedName } from '../../values/names.ts';
import { validateOptionalEnum, addInvalid, validateEnum, validateNonEmpty, type Errors, repeatedIndexes } from './checks.ts';
import { validateLabelSelector } from '../meta.ts';

const operations = ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE'];
const knownVersions = ['v1', 'v1beta1'];
const maxConditions = 64;

function validateQualifiedDomain(errors: Errors, path: string, name: string): void {
  if (name === '') errors.push(required(path));
  else {
    const wrong = isDns1123Subdomain(name);
    if (wrong.length > 0) addInvalid(errors, path, name, wrong);
    else if (name.split('.').length < 3)
      errors.push(invalid(path, name, 'should be a domain with at least three segments separated by dots'));
  }
}

/** A list in which `*` must be the only item. */
function validateWildcards(
  errors: Errors,
  path: string,
  { values, what, allowEmptyText }: { readonly values: readonly string[]; readonly what: string; readonly allowEmptyText: boolean },
): void {
  if (values.length === 0) errors.push(required(path));
  for (const [i, value] of values.entries()) if (value === '' && !allowEmptyText) errors.push(required(`${path}[${i}]`));
  if (values.length > 1 && values.includes('*')) errors.push(invalid(path, values, `if '*' is present, must not specify other ${what}`));
}

function validateRules(errors: Errors, path: string, list: readonly RuleWithOperations[]): void {
  for (const [i, rule] of list.entries()) {
    const at = `${path}[${i}]`;
    validateWildcards(errors, `${at}.apiGroups`, { values: rule.apiGroups ?? [], what: 'API groups', allowEmptyText: true });
    validateWildcards(errors, `${at}.apiVersions`, { values: rule.apiVersions ?? [], what: 'API versions', allowEmptyText: false });
    validateResources(errors, `${at}.resources`, rule.resources ?? []);
    validateOptionalEnum(errors, `${at}.scope`, rule.scope, ['*', 'Cluster', 'Namespaced']);
    const wanted = rule.operations ?? [];
    if (wanted.length === 0) errors.push(required(`${at}.operations`));
    if (wanted.length > 1 && wanted.includes('*'))
      errors.push(invalid(`${at}.operations`, wanted, "if '*' is present, must not specify other operations"));
    for (const [j, operation] of wanted.entries()) validateOptionalEnum(errors, `${at}.operations[${j}]`, operation, operations);
  }
}

function validateResources(errors: Errors, path: string, list: readonly string[]): void {
  if (list.length === 0) errors.push(required(path));
  const wholes = new Set(list.filter((name) => name.endsWith('/*')).map((name) => name.slice(0, -2)));
  const subs = new Set(list.filter((name) => name.startsWith('*/')).map((name) => name.slice(2)));
  const hasResource = list.some((name) => name !== '*' && !name.includes('/'));
  for (const [i, name] of list.entries()) {
    const at = `${path}[${i}]`;
    if (name === '') {
      errors.push(required(at));
      continue;
    }
    if (name === '*/*' && list.length > 1) errors.push(invalid(path, list, "if '*/*' is present, must not specify other resources"));
    if (name === '*' && hasResource)
      errors.push(invalid(path, list, "if '*' is present, must not specify other resources without subresources"));
    const slash = name.indexOf('/');
    if (slash < 0 || name === '*/*') continue;
    const [resource, sub] = [name.slice(0, slash), name.slice(slash + 1)];
    if (sub !== '*' && wholes.has(resource)) errors.push(invalid(at, name, `if '${resource}/*' is present, must not specify ${name}`));
    if (resource !== '*' && subs.has(sub)) errors.push(invalid(at, name, `if '*/${sub}' is present, must not specify ${name}`));
  }
}

export function validateClientConfig(errors: Errors, path: string, { url, service }: WebhookClientConfig): void {
  if ((url === undefined) === (service === undefined)) {
    errors.push(required(path, 'exactly one of url or service is required'));
    return;
  }
  if (url !== undefined) validateWebhookUrl(errors, `${path}.url`, url);
  if (service === undefined) return;
  validateNonEmpty(errors, `${path}.service.name`, service.name);
  validateNonEmpty(errors, `${path}.service.namespace`, service.namespace);
  if (service.port !== undefined && (service.port < 1 || service.port > 65_535))
    errors.push(invalid(`${path}.service.port`, service.port, 'port is not valid: must be between 1 and 65535, inclusive'));
  if (service.path !== undefined) validateServicePath(errors, `${path}.service.path`, service.path);
}

function validateServicePath(errors: Errors, path: string, value: string): void {
  if (value === '' || value === '/') return;
  if (value === '//') errors.push(invalid(path, value, 'segment[0] may not be empty'));
  else if (!value.startsWith('/')) errors.push(invalid(path, value, "must start with a '/'"));
  else
    for (const [i, step] of value.slice(1).replace(/\/$/, '').split('/').entries()) {
      if (step === '') errors.push(invalid(path, value, `segment[${i}] may not be empty`));
      else for (const message of isDns1123Subdomain(step)) errors.push(invalid(path, value, `segment[${i}]: ${message}`));
    }
}

const form = '; desired format: https://host[/path]';
function validateWebhookUrl(errors: Errors, path: string, value: string): void {
  let url: URL;
  try {
    url = new URL(value);
  } catch {
    errors.push(required(path, `url must be a valid URL: parse ${JSON.stringify(value)}: invalid URI for request${form}`));
    return;
  }
  if (url.protocol !== 'https:') errors.push(invalid(path, url.protocol.slice(0, -1), `'https' is the only allowed URL scheme${form}`));
  if (url.host === '') errors.push(invalid(path, url.host, `host must be specified${form}`));
  if (url.username !== '' || url.password !== '') errors.push(invalid(path, url.username, 'user information is not permitted in the URL'));
  if (url.hash !== '') errors.push(invalid(path, url.hash.slice(1), 'fragments are not permitted in the URL'));
  if (url.search !== '') errors.push(invalid(path, url.search.slice(1), 'query parameters are not permitted in the URL'));
}

/** Compiling the expressions is not part of this check. */
function validateMatchConditions(errors: Errors, path: string, list: readonly MatchCondition[]): void {
  if (list.length > maxConditions) errors.push(tooMany(path, list.length, maxConditions));
  const names = new Set<string>();
  for (const [i, { name = '', expression = '' }] of list.entries()) {
    if (expression.trim() === '') errors.push(required(`${path}[${i}].expression`));
    if (name === '') errors.push(required(`${path}[${i}].name`));
    else addInvalid(errors, `${path}[${i}].name`, name, isQualifiedName(name));
    if (names.has(name)) errors.push(duplicate(`${path}[${i}].name`, name));
    names.add(name);
  }
}

function validateWebhook(errors: Errors, path: string, hook: ValidatingWebhook & Pick<MutatingWebhook, 'reinvocationPolicy'>): void {
  validateQualifiedDomain(errors, `${path}.name`, hook.name ?? '');
  validateLabelSelector(errors, `${path}.namespaceSelector`, hook.namespaceSelector);
  validateLabelSelector(errors, `${path}.objectSelector`, hook.objectSelector);
  validateOptionalEnum(errors, `${path}.failurePolicy`, hook.failurePolicy, ['Fail', 'Ignore']);
  validateOptionalEnum(errors, `${path}.matchPolicy`, hook.matchPolicy, ['Equivalent', 'Exact']);
  if (hook.sideEffects === undefined) errors.push(required(`${path}.sideEffects`, 'must specify one of None, NoneOnDryRun'));
  else validateOptionalEnum(errors, `${path}.sideEffects`, hook.sideEffects, ['None', 'NoneOnDryRun']);
  if (hook.timeoutSeconds !== undefined && (hook.timeoutSeconds < 1 || hook.timeoutSeconds > 30))
    errors.push(invalid(`${path}.timeoutSeconds`, hook.timeoutSeconds, 'the timeout value must be between 1 and 30 seconds'));
  validateOptionalEnum(errors, `${path}.reinvocationPolicy`, hook.reinvocationPolicy, ['IfNeeded', 'Never']);
  validateClientConfig(errors, `${path}.clientConfig`, hook.clientConfig ?? {});
  const versions = hook.admissionReviewVersions ?? [];
  const at = `${path}.admissionReviewVersions`;
  if (versions.length < 1) errors.push(required(at, 'must specify one of v1, v1beta1'));
  else {
    const repeated = new Set(repeatedIndexes(versions));
    for (const [i, version] of versions.entries()) {
      if (repeated.has(i)) errors.push(invalid(`${at}[${i}]`, version, 'duplicate version'));
      for (const message of isDns1123Label(version)) errors.push(invalid(`${at}[${i}]`, version, message));
    }
    if (!versions.some((version) => knownVersions.includes(version)))
      errors.push(invalid(at, versions, 'must include at least one of v1, v1beta1'));
  }
  validateRules(errors, `${path}.rules`, hook.rules ?? []);
  validateMatchConditions(errors, `${path}.matchConditions`, hook.matchConditions ?? []);
}

export function validateWebhookConfiguration(
  errors: Errors,
  { webhooks = [] }: MutatingWebhookConfiguration | ValidatingWebhookConfiguration,
): void {
  const names = new Set<string>();
  for (const [i, hook] of webhooks.entries()) {
    validateWebhook(errors, `webhooks[${i}]`, hook);
    if (hook.name !== undefined && names.has(hook.name)) errors.push(duplicate(`webhooks[${i}].name`, hook.name));
    names.add(hook.name ?? '');
  }
}

function validateMatchResources(errors: Errors, path: string, match: MatchResources, needed: boolean): void {
  validateOptionalEnum(errors, `${path}.matchPolicy`, match.matchPolicy, ['Equivalent', 'Exact']);
  validateLabelSelector(errors, `${path}.namespaceSelector`, match.namespaceSelector);
  validateLabelSelector(errors, `${path}.objectSelector`, match.objectSelector);
  validateRules(errors, `${path}.resourceRules`, match.resourceRules ?? []);
  validateRules(errors, `${path}.excludeResourceRules`, match.excludeResourceRules ?? []);
  if (needed && (match.resourceRules ?? []).length === 0) errors.push(required(`${path}.resourceRules`));
}

function validateParamKind(
  errors: Errors,
  path: string,
  { apiVersion = '', kind = '' }: { readonly apiVersion?: string; readonly kind?: string },
): void {
  if (apiVersion === '') errors.push(required(`${path}.apiVersion`));
  else if (apiVersion.split('/').length > 2)
    errors.push(invalid(`${path}.apiVersion`, apiVersion, `unexpected GroupVersion string: ${apiVersion}`));
  if (kind === '') errors.push(required(`${path}.kind`));
  else
    for (const message of isDns1123Label(kind.toLowerCase()))
      errors.push(invalid(`${path}.kind`, kind, `may have mixed case, but should otherwise match: ${message}`));
}

const reasons = ['Forbidden', 'Invalid', 'RequestEntityTooLarge', 'Unauthorized'];
export function validateValidatingAdmissionPolicy(errors: Errors, { spec = {} }: ValidatingAdmissionPolicy): void {
  validateOptionalEnum(errors, 'spec.failurePolicy', spec.failurePolicy, ['Fail', 'Ignore']);
  if (spec.paramKind !== undefined) validateParamKind(errors, 'spec.paramKind', spec.paramKind);
  if (spec.matchConstraints === undefined) errors.push(required('spec.matchConstraints'));
  else validateMatchResources(errors, 'spec.matchConstraints', spec.matchConstraints, true);
  validateMatchConditions(errors, 'spec.matchConditions', spec.matchConditions ?? []);
  const { validations = [], auditAnnotations = [], variables = [] } = spec;
  if (validations.length === 0 && auditAnnotations.length === 0) {
    errors.push(required('spec.validations', 'validations or auditAnnotations must contain at least one item'));
    errors.push(required('spec.auditAnnotations', 'validations or auditAnnotations must contain at least one item'));
  }
  for (const [i, { expression = '', messageExpression, reason, message }] of validations.entries()) {
    const at = `spec.validations[${i}]`;
    if (expression.trim() === '') errors.push(required(`${at}.expression`, 'expression is not specified'));
    if (message !== undefined && message !== '' && message.trim() === '')
      errors.push(invalid(`${at}.message`, message, 'message must be non-empty if specified'));
    else if (message?.includes('\n') === true) errors.push(invalid(`${at}.message`, message, 'message must not contain line breaks'));
    if (messageExpression !== undefined && messageExpression !== '' && messageExpression.trim() === '')
      errors.push(invalid(`${at}.messageExpression`, messageExpression, 'must be non-empty if specified'));
    validateOptionalEnum(errors, `${at}.reason`, reason, reasons);
  }
  const keys = new Set<string>();
  for (const [i, { key = '', valueExpression = '' }] of auditAnnotations.entries()) {
    const at = `spec.auditAnnotations[${i}]`;
    if (key === '') errors.push(required(`${at}.key`));
    else addInvalid(errors, `${at}.key`, key, isQualifiedName(key));
    if (keys.has(key)) errors.push(duplicate(`${at}.key`, key));
    keys.add(key);
    if (valueExpression.trim() === '') errors.push(required(`${at}.valueExpression`, 'valueExpression is not specified'));
    else if (valueExpression.length > 5 * 1024) errors.push(tooLong(`${at}.valueExpression`, 5 * 1024));
  }
  validateNames(errors, 'spec.variables', variables);
}

function validateNames(errors: Errors, path: string, variables: readonly { readonly name?: string; readonly expression?: string }[]): void {
  const seen = new Set<string>();
  for (const [i, { name = '', expression = '' }] of variables.entries()) {
    const at = `${path}[${i}]`;
    if (name === '') errors.push(required(`${at}.name`, 'name is not specified'));
    else if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) errors.push(invalid(`${at}.name`, name, 'name is not a valid CEL identifier'));
    if (expression.trim() === '') errors.push(required(`${at}.expression`, 'expression is not specified'));
    if (seen.has(name)) errors.push(duplicate(`${at}.name`, name));
    seen.add(name);
  }
}

export function validateMutatingAdmissionPolicy(errors: Errors, { spec = {} }: MutatingAdmissionPolicy): void {
  validateOptionalEnum(errors, 'spec.failurePolicy', spec.failurePolicy, ['Fail', 'Ignore']);
  if (spec.paramKind !== undefined) validateParamKind(errors, 'spec.paramKind', spec.paramKind);
  if (spec.matchConstraints === undefined) errors.push(required('spec.matchConstraints'));
  else validateMatchResources(errors, 'spec.matchConstraints', spec.matchConstraints, true);
  validateMatchConditions(errors, 'spec.matchConditions', spec.matchConditions ?? []);
  validateNames(errors, 'spec.variables', spec.variables ?? []);
  const mutations = spec.mutations ?? [];
  if (mutations.length === 0) errors.push(required('spec.mutations', 'mutations must contain at least one item'));
  for (const [i, { patchType, jsonPatch, applyConfiguration }] of mutations.entries()) {
    const at = `spec.mutations[${i}]`;
    validateEnum(errors, `${at}.patchType`, patchType, ['ApplyConfiguration', 'JSONPatch']);
    if (patchType === 'ApplyConfiguration' && !applyConfiguration?.expression) errors.push(required(`${at}.applyConfiguration.expression`));
    if (patchType === 'JSONPatch' && !jsonPatch?.expression) errors.push(required(`${at}.jsonPatch.expression`));
  }
  if (spec.reinvocationPolicy === undefined) errors.push(required('spec.reinvocationPolicy'));
  else validateOptionalEnum(errors, 'spec.reinvocationPolicy', spec.reinvocationPolicy, ['IfNeeded', 'Never']);
}

/** Bindings of both policy kinds; those of mutating policies have no actions. */
export function validatePolicyBinding(errors: Errors, { spec }: ValidatingAdmissionPolicyBinding, validating: boolean): void {
  if (!spec?.policyName) errors.push(required('spec.policyName'));
  else addInvalid(errors, 'spec.policyName', spec.policyName, isDns1123Subdomain(spec.policyName));
  const { paramRef, matchResources: match, validationActions = [] } = spec ?? {};
  if (paramRef !== undefined) {
    if ((paramRef.name ?? '') !== '' && paramRef.selector !== undefined)
      errors.push(invalid('spec.paramRef.name', paramRef.name, 'name and selector are mutually exclusive'));
    if (!paramRef.name && paramRef.selector === undefined)
      errors.push(required('spec.paramRef', 'one of name or selector must be specified'));
    if (paramRef.parameterNotFoundAction === undefined) errors.push(required('spec.paramRef.parameterNotFoundAction'));
    else validateOptionalEnum(errors, 'spec.paramRef.parameterNotFoundAction', paramRef.parameterNotFoundAction, ['Allow', 'Deny']);
  }
  if (match !== undefined) validateMatchResources(errors, 'spec.matchResources', match, false);
  if (!validating) return;
  if (validationActions.length === 0) errors.push(required('spec.validationActions', 'at least one validation action is required'));
  const repeated = new Set(repeatedIndexes(validationActions));
  for (const [i, action] of validationActions.entries()) {
    validateOptionalEnum(errors, `spec.validationActions[${i}]`, action, ['Audit', 'Deny', 'Warn']);
    if (repeated.has(i)) errors.push(duplicate(`spec.validationActions[${i}]`, action));
  }
  if (validationActions.includes('Deny') && validationActions.includes('Warn'))
    errors.push(
      invalid(
        'spec.validationActions',
        validationActions,
        'must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)',
      ),
    );
}
