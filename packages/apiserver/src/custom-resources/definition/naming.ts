import type {
  CustomResourceDefinition,
  CustomResourceDefinitionCondition as Condition,
  CustomResourceDefinitionNames,
} from '@oarlock/api/types/apiextensions-v1';
import { apiApprovalOf } from './api-approval.ts';
import { conditionOf, isTrue, withCondition, withoutCondition } from './conditions.ts';

type Status = NonNullable<CustomResourceDefinition['status']>;

/**
 * Returns the accepted names and the conditions of a definition, given all definitions of its group. A name that another definition has
 * accepted remains with that definition. The definition is established after all its names are accepted.
 */
export function namingStatus(definition: CustomResourceDefinition, group: Iterable<CustomResourceDefinition>, now: number): Status {
  const { metadata, spec, status = {} } = definition;
  const observed = metadata?.generation === undefined ? {} : { observedGeneration: metadata.generation };
  const namesTaken = namesInUse(group);
  const conflicts: { readonly reason: string; readonly message: string }[] = [];
  const { names: requested } = spec;
  const accepted: Partial<CustomResourceDefinitionNames> = status.acceptedNames ?? {};
  const next: { -readonly [K in keyof CustomResourceDefinitionNames]?: CustomResourceDefinitionNames[K] } = { ...accepted };
  const claim = (field: 'plural' | 'singular' | 'kind' | 'listKind', names: ReadonlySet<string>, reason: string) => {
    const name = requested[field] ?? '';
    if (name === (accepted[field] ?? '') || !names.has(name)) next[field] = name;
    else conflicts.push({ reason, message: `${JSON.stringify(name)} is already in use` });
  };
  claim('plural', namesTaken.resources, 'PluralConflict');
  claim('singular', namesTaken.resources, 'SingularConflict');
  const shortTaken = (requested.shortNames ?? []).filter(
    (name) => accepted.shortNames?.includes(name) !== true && namesTaken.resources.has(name),
  );
  if (shortTaken.length > 0) {
    const texts = shortTaken.map((name) => `${JSON.stringify(name)} is already in use`);
    conflicts.push({ reason: 'ShortNamesConflict', message: texts.length === 1 ? (texts[0] as string) : `[${texts.join(', ')}]` });
  } else setAcceptedList(next, 'shortNames', requested.shortNames);
  claim('kind', namesTaken.kinds, 'KindConflict');
  claim('listKind', namesTaken.kinds, 'ListKindConflict');
  setAcceptedList(next, 'categories', requested.categories);
  let conditions = status.conditions ?? [];
  const conflict = conflicts.at(-1);
  conditions = withCondition(
    conditions,
    conflict === undefined
      ? { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found', ...observed }
      : { type: 'NamesAccepted', status: 'False', ...conflict, ...observed },
    now,
  );
  conditions = withCondition(conditions, { ...establishedCondition(definition, conflict === undefined), ...observed }, now);
  const approval = apiApprovalOf(definition);
  conditions =
    approval === undefined
      ? withoutCondition(conditions, 'KubernetesAPIApprovalPolicyConformant')
      : withCondition(
          conditions,
          {
            type: 'KubernetesAPIApprovalPolicyConformant',
            status: approval.status === 'approved' ? 'True' : 'False',
            reason: approval.reason,
            message: approval.message,
            ...observed,
          },
          now,
        );
  // validation only admits structural schemas
  conditions = withoutCondition(conditions, 'NonStructuralSchema');
  return { ...status, acceptedNames: next as CustomResourceDefinitionNames, conditions };
}

/** Established is never reset: existing objects remain accessible after a later name conflict. */
function establishedCondition(definition: CustomResourceDefinition, namesAccepted: boolean): Omit<Condition, 'lastTransitionTime'> {
  const current = conditionOf(definition, 'Established');
  if (current?.status === 'True') return current;
  return namesAccepted
    ? { type: 'Established', status: 'True', reason: 'InitialNamesAccepted', message: 'the initial names have been accepted' }
    : { type: 'Established', status: 'False', reason: 'NotAccepted', message: 'not all names are accepted' };
}

function setAcceptedList(
  names: { shortNames?: readonly string[]; categories?: readonly string[] },
  field: 'shortNames' | 'categories',
  list: readonly string[] | undefined,
): void {
  if (list === undefined || list.length === 0) delete names[field];
  else names[field] = list;
}

/**
 * Returns the names that the definitions of the group have accepted. The names of the definition itself are included, because they do not
 * conflict with it.
 */
function namesInUse(group: Iterable<CustomResourceDefinition>) {
  const resources = new Set<string>();
  const kinds = new Set<string>();
  for (const { status } of group) {
    const names = status?.acceptedNames;
    if (names === undefined) continue;
    for (const name of [names.plural, names.singular, ...(names.shortNames ?? [])]) if (name) resources.add(name);
    for (const name of [names.kind, names.listKind]) if (name) kinds.add(name);
  }
  return { resources, kinds };
}

/** Returns true if the definition has the condition Established, so that its objects are served. */
export const isEstablished = (definition: CustomResourceDefinition): boolean =>
  isTrue(definition, 'Established') && definition.status?.acceptedNames !== undefined;

export const isTerminating = (definition: CustomResourceDefinition): boolean => conditionOf(definition, 'Terminating')?.status === 'True';
