import type { CustomResourceDefinition, CustomResourceDefinitionNames } from '@oarlock/api/types/apiextensions-v1';
import { apiApprovalOf } from './api-approval.ts';
import { conditionOf, isTrue, withCondition, withoutCondition } from './conditions.ts';

type Status = NonNullable<CustomResourceDefinition['status']>;

/**
 * The names and conditions that a definition should have, given all definitions of its group: names that another has accepted stay the
 * other's, and nothing is established before all its names are accepted.
 */
export function namingStatus(definition: CustomResourceDefinition, group: Iterable<CustomResourceDefinition>, now: number): Status {
  const { spec, status = {} } = definition;
  const used = namesInUse(group);
  const conflicts: { readonly reason: string; readonly message: string }[] = [];
  const { names: wanted } = spec;
  const accepted: Partial<CustomResourceDefinitionNames> = status.acceptedNames ?? {};
  const next: { -readonly [K in keyof CustomResourceDefinitionNames]?: CustomResourceDefinitionNames[K] } = { ...accepted };
  const claim = (field: 'plural' | 'singular' | 'kind' | 'listKind', taken: ReadonlySet<string>, reason: string) => {
    const name = wanted[field] ?? '';
    if (name === (accepted[field] ?? '') || !taken.has(name)) next[field] = name;
    else conflicts.push({ reason, message: `${JSON.stringify(name)} is already in use` });
  };
  claim('plural', used.resources, 'PluralConflict');
  claim('singular', used.resources, 'SingularConflict');
  const shortTaken = (wanted.shortNames ?? []).filter((name) => accepted.shortNames?.includes(name) !== true && used.resources.has(name));
  if (shortTaken.length > 0) {
    const texts = shortTaken.map((name) => `${JSON.stringify(name)} is already in use`);
    conflicts.push({ reason: 'ShortNamesConflict', message: texts.length === 1 ? (texts[0] as string) : `[${texts.join(', ')}]` });
  } else setAcceptedList(next, 'shortNames', wanted.shortNames);
  claim('kind', used.kinds, 'KindConflict');
  claim('listKind', used.kinds, 'ListKindConflict');
  setAcceptedList(next, 'categories', wanted.categories);
  let conditions = status.conditions ?? [];
  const conflict = conflicts.at(-1);
  conditions = withCondition(
    conditions,
    conflict === undefined
      ? { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found' }
      : { type: 'NamesAccepted', status: 'False', ...conflict },
    now,
  );
  // once established it stays so: who has objects does not lose them to a conflict that came later
  if (!isTrue(definition, 'Established'))
    conditions = withCondition(
      conditions,
      conflict === undefined
        ? { type: 'Established', status: 'True', reason: 'InitialNamesAccepted', message: 'the initial names have been accepted' }
        : { type: 'Established', status: 'False', reason: 'NotAccepted', message: 'not all names are accepted' },
      now,
    );
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
          },
          now,
        );
  // only structural schemas are let in
  conditions = withoutCondition(conditions, 'NonStructuralSchema');
  return { ...status, acceptedNames: next as CustomResourceDefinitionNames, conditions };
}

function setAcceptedList(
  names: { shortNames?: readonly string[]; categories?: readonly string[] },
  field: 'shortNames' | 'categories',
  list: readonly string[] | undefined,
): void {
  if (list === undefined || list.length === 0) delete names[field];
  else names[field] = list;
}

/** What the definitions of a group have accepted, this one's own included: a name that is one's own already is no conflict. */
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

/** Whether its objects are served. */
export const isEstablished = (definition: CustomResourceDefinition): boolean =>
  isTrue(definition, 'Established') && definition.status?.acceptedNames !== undefined;

export const isTerminating = (definition: CustomResourceDefinition): boolean => conditionOf(definition, 'Terminating')?.status === 'True';
