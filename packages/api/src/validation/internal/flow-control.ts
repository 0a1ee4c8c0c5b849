import { fieldForbidden, invalid, notSupported, required } from '../../field/field-error.ts';
import type { APIService } from '../../generated/types/apiregistration-v1.ts';
import type { FlowSchema, FlowSchemaSpec, PriorityLevelConfiguration } from '../../generated/types/flowcontrol-v1.ts';
import { isDns1035Label, isDns1123Subdomain } from '../../values/names.ts';
import { validateDNSSubdomain, addInvalid, validateEnum, validateNonEmpty, type Errors } from './checks.ts';

export function validateApiService(errors: Errors, { metadata, spec }: APIService): void {
  const { group = '', version = '', groupPriorityMinimum = 0, versionPriority = 0, service, caBundle, insecureSkipTLSVerify } = spec ?? {};
  const name = `${version}.${group}`;
  if (metadata?.name !== name)
    errors.push(invalid('metadata.name', metadata?.name ?? '', `must be \`spec.version+"."+spec.group\`: ${JSON.stringify(name)}`));
  // the core group has an empty name and the single version v1
  if (group === '' && version !== 'v1') errors.push(required('spec.group', 'only v1 may have an empty group and it better be legacy kube'));
  if (group !== '') addInvalid(errors, 'spec.group', group, isDns1123Subdomain(group));
  addInvalid(errors, 'spec.version', version, isDns1035Label(version));
  if (groupPriorityMinimum <= 0 || groupPriorityMinimum > 20_000)
    errors.push(invalid('spec.groupPriorityMinimum', groupPriorityMinimum, 'must be positive and less than 20000'));
  if (versionPriority <= 0 || versionPriority > 1000)
    errors.push(invalid('spec.versionPriority', versionPriority, 'must be positive and less than 1000'));
  if (service === undefined) {
    if (caBundle)
      errors.push(invalid('spec.caBundle', `${Buffer.from(caBundle, 'base64').length} bytes`, 'local APIServices may not have a caBundle'));
    if (insecureSkipTLSVerify === true)
      errors.push(invalid('spec.insecureSkipTLSVerify', true, 'local APIServices may not have insecureSkipTLSVerify'));
    return;
  }
  validateNonEmpty(errors, 'spec.service.namespace', service.namespace);
  validateNonEmpty(errors, 'spec.service.name', service.name);
  if (service.port !== undefined && (service.port < 1 || service.port > 65_535))
    errors.push(invalid('spec.service.port', service.port, 'port is not valid: must be between 1 and 65535, inclusive'));
  if (insecureSkipTLSVerify === true && caBundle)
    errors.push(invalid('spec.insecureSkipTLSVerify', true, 'may not be true if caBundle is present'));
}

export function validateApiServiceStatus(errors: Errors, { status }: APIService): void {
  for (const [i, condition] of (status?.conditions ?? []).entries())
    if (!['True', 'False', 'Unknown'].includes(condition.status ?? ''))
      errors.push(notSupported(`status.conditions[${i}].status`, condition.status ?? '', ['False', 'True', 'Unknown']));
}

const mandatory: ReadonlySet<string> = new Set(['exempt', 'catch-all']);
const maxPrecedence = 10_000;

export function validateFlowSchema(errors: Errors, { metadata, spec }: FlowSchema): void {
  const name = metadata?.name ?? '';
  const { matchingPrecedence = 0, priorityLevelConfiguration, distinguisherMethod, rules = [] } = spec ?? {};
  if (matchingPrecedence <= 0) errors.push(invalid('spec.matchingPrecedence', matchingPrecedence, 'must be a positive value'));
  if (matchingPrecedence > maxPrecedence)
    errors.push(invalid('spec.matchingPrecedence', matchingPrecedence, `must not be greater than ${maxPrecedence}`));
  if (matchingPrecedence === 1 && name !== 'exempt')
    errors.push(invalid('spec.matchingPrecedence', matchingPrecedence, "only the schema named 'exempt' may have matchingPrecedence 1"));
  if (distinguisherMethod !== undefined && !['ByUser', 'ByNamespace'].includes(distinguisherMethod.type ?? ''))
    errors.push(notSupported('spec.distinguisherMethod', distinguisherMethod, ['ByNamespace', 'ByUser']));
  const level = priorityLevelConfiguration?.name ?? '';
  if (level === '') errors.push(required('spec.priorityLevelConfiguration.name', 'must reference a priority level'));
  else validateDNSSubdomain(errors, 'spec.priorityLevelConfiguration.name', level);
  if (mandatory.has(name) && level !== '' && level !== name)
    errors.push(invalid('spec.priorityLevelConfiguration.name', level, `must be ${JSON.stringify(name)}`));
  for (const [i, rule] of rules.entries()) validateFlowRule(errors, `spec.rules[${i}]`, rule);
}

type FlowRule = NonNullable<FlowSchemaSpec['rules']>[number];
function validateSubjects(errors: Errors, path: string, subjects: NonNullable<FlowRule['subjects']>): void {
  for (const [i, { kind, user, group, serviceAccount }] of subjects.entries()) {
    const at = `${path}[${i}]`;
    const parts = { ServiceAccount: serviceAccount, User: user, Group: group } as const;
    if (!Object.hasOwn(parts, kind ?? '')) {
      errors.push(notSupported(`${at}.kind`, kind ?? '', Object.keys(parts)));
      continue;
    }
    for (const [of, value] of Object.entries(parts)) {
      const field = of.charAt(0).toLowerCase() + of.slice(1);
      if (of === kind && value === undefined) errors.push(required(`${at}.${field}`, `${field} is required when subject kind is '${of}'`));
      if (of !== kind && value !== undefined)
        errors.push(fieldForbidden(`${at}.${field}`, `${field} is forbidden when subject kind is not '${of}'`));
    }
    if (user !== undefined) validateNonEmpty(errors, `${at}.user.name`, user.name);
    if (group !== undefined) validateNonEmpty(errors, `${at}.group.name`, group.name);
    if (serviceAccount !== undefined) {
      validateNonEmpty(errors, `${at}.serviceAccount.name`, serviceAccount.name);
      validateNonEmpty(errors, `${at}.serviceAccount.namespace`, serviceAccount.namespace, 'must specify namespace for service account');
    }
  }
}

function validateFlowRule(errors: Errors, path: string, { subjects = [], resourceRules = [], nonResourceRules = [] }: FlowRule): void {
  if (subjects.length === 0) errors.push(required(`${path}.subjects`, 'subjects must contain at least one value'));
  validateSubjects(errors, `${path}.subjects`, subjects);
  if (resourceRules.length === 0 && nonResourceRules.length === 0)
    errors.push(required(path, 'at least one of resourceRules and nonResourceRules has to be non-empty'));
  for (const [i, { verbs = [], apiGroups = [], resources = [], namespaces = [], clusterScope }] of resourceRules.entries()) {
    const at = `${path}.resourceRules[${i}]`;
    validateWildcard(errors, `${at}.verbs`, {
      values: verbs,
      empty: 'verbs must contain at least one value',
      mixed: "if '*' is present, must not specify other verbs",
    });
    validateWildcard(errors, `${at}.apiGroups`, {
      values: apiGroups,
      empty: 'resource rules must supply at least one api group',
      mixed: "if '*' is present, must not specify other api groups",
    });
    validateWildcard(errors, `${at}.resources`, {
      values: resources,
      empty: 'resource rules must supply at least one resource',
      mixed: "if '*' is present, must not specify other resources",
    });
    if (namespaces.length === 0 && clusterScope !== true)
      errors.push(required(`${at}.namespaces`, 'resource rules that are not cluster scoped must supply at least one namespace'));
    if (namespaces.length > 1 && namespaces.includes('*'))
      errors.push(invalid(`${at}.namespaces`, namespaces, "if '*' is present, must not specify other namespaces"));
  }
  for (const [i, { verbs = [], nonResourceURLs = [] }] of nonResourceRules.entries()) {
    const at = `${path}.nonResourceRules[${i}]`;
    validateWildcard(errors, `${at}.verbs`, {
      values: verbs,
      empty: 'verbs must contain at least one value',
      mixed: "if '*' is present, must not specify other verbs",
    });
    validateWildcard(errors, `${at}.nonResourceURLs`, {
      values: nonResourceURLs,
      empty: 'nonResourceURLs must contain at least one value',
      mixed: "if '*' is present, must not specify other non-resource URLs",
    });
    for (const [j, url] of nonResourceURLs.entries())
      if (url !== '*' && !url.startsWith('/')) errors.push(invalid(`${at}.nonResourceURLs[${j}]`, url, "must start with '/'"));
  }
}

function validateWildcard(
  errors: Errors,
  path: string,
  { values, empty, mixed }: { readonly values: readonly string[]; readonly empty: string; readonly mixed: string },
): void {
  if (values.length === 0) errors.push(required(path, empty));
  else if (values.length > 1 && values.includes('*')) errors.push(invalid(path, values, mixed));
}

export function validatePriorityLevelConfiguration(errors: Errors, { metadata, spec }: PriorityLevelConfiguration): void {
  const { type = '', limited, exempt } = spec ?? {};
  const name = metadata?.name ?? '';
  if (name === 'exempt' && type !== 'Exempt')
    errors.push(invalid('spec.type', type, `type must be 'Exempt' if and only if name is 'exempt'`));
  if (name !== 'exempt' && type === 'Exempt')
    errors.push(invalid('spec.type', type, `type must be 'Exempt' if and only if name is 'exempt'`));
  if (type === 'Exempt') {
    if (limited !== undefined) errors.push(fieldForbidden('spec.limited', 'must be nil if the type is not Limited'));
    validateShares(errors, 'spec.exempt', exempt);
    return;
  }
  validateEnum(errors, 'spec.type', type, ['Exempt', 'Limited']);
  if (type !== 'Limited') return;
  if (exempt !== undefined) errors.push(fieldForbidden('spec.exempt', 'must be nil if the type is Limited'));
  if (limited === undefined) {
    errors.push(required('spec.limited', 'must not be empty when type is Limited'));
    return;
  }
  validateShares(errors, 'spec.limited', limited);
  const { borrowingLimitPercent, limitResponse } = limited;
  if (borrowingLimitPercent !== undefined && borrowingLimitPercent < 0)
    errors.push(invalid('spec.limited.borrowingLimitPercent', borrowingLimitPercent, 'if specified, must be a non-negative integer'));
  const at = 'spec.limited.limitResponse';
  const { type: response = '', queuing } = limitResponse ?? {};
  if (response === 'Reject') {
    if (queuing !== undefined) errors.push(fieldForbidden(`${at}.queuing`, 'must be nil if limited.limitResponse.type is not Limited'));
  } else if (response === 'Queue') {
    if (queuing === undefined) {
      errors.push(required(`${at}.queuing`, 'must not be empty if limited.limitResponse.type is Limited'));
      return;
    }
    const { queues = 0, handSize = 0, queueLengthLimit = 0 } = queuing;
    if (queueLengthLimit <= 0) errors.push(invalid(`${at}.queuing.queueLengthLimit`, queueLengthLimit, 'must be positive'));
    if (queues <= 0) errors.push(invalid(`${at}.queuing.queues`, queues, 'must be positive'));
    if (queues > 10_000_000) errors.push(invalid(`${at}.queuing.queues`, queues, 'must not be greater than 10000000'));
    if (handSize <= 0) errors.push(invalid(`${at}.queuing.handSize`, handSize, 'must be positive'));
    else if (handSize > queues) errors.push(invalid(`${at}.queuing.handSize`, handSize, `should not be greater than queues (${queues})`));
    else if (Math.log2(Math.max(1, queues)) * handSize > 60)
      errors.push(
        invalid(`${at}.queuing.handSize`, handSize, 'required entropy bits of deckSize and handSize should not be greater than 60'),
      );
  } else validateEnum(errors, `${at}.type`, response, ['Queue', 'Reject']);
}

function validateShares(
  errors: Errors,
  path: string,
  value: { readonly nominalConcurrencyShares?: number; readonly lendablePercent?: number } | undefined,
): void {
  const { nominalConcurrencyShares: nominal, lendablePercent } = value ?? {};
  if (nominal !== undefined && nominal < 0)
    errors.push(invalid(`${path}.nominalConcurrencyShares`, nominal, 'must be a non-negative integer'));
  if (lendablePercent !== undefined && (lendablePercent < 0 || lendablePercent > 100))
    errors.push(invalid(`${path}.lendablePercent`, lendablePercent, 'must be between 0 and 100, inclusive'));
}
