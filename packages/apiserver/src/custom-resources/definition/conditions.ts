import { formatTime } from '@oarlock/api/values/time';
import type { CustomResourceDefinition, CustomResourceDefinitionCondition as Condition } from '@oarlock/api/types/apiextensions-v1';

export const conditionOf = ({ status }: CustomResourceDefinition, type: string): Condition | undefined =>
  status?.conditions?.find((condition) => condition.type === type);

const compared = ['status', 'reason', 'message', 'observedGeneration'] as const;

export const isTrue = (definition: CustomResourceDefinition, type: string): boolean => conditionOf(definition, type)?.status === 'True';

/**
 * Returns the conditions with one condition set, or the same list if nothing changes. lastTransitionTime changes only if the status
 * changes. `observedGeneration` is the generation of the definition (CRDObservedGenerationTracking).
 */
export function withCondition(
  conditions: readonly Condition[],
  next: Pick<Condition, 'type' | 'status' | 'reason' | 'message' | 'observedGeneration'>,
  now: number,
): readonly Condition[] {
  const at = conditions.findIndex(({ type }) => type === next.type);
  const old = conditions[at];
  if (old !== undefined && compared.every((field) => old[field] === next[field])) return conditions;
  const lastTransitionTime = (old?.status === next.status && old.lastTransitionTime) || formatTime(now);
  const condition: Condition = { ...next, lastTransitionTime };
  return at < 0 ? [...conditions, condition] : conditions.with(at, condition);
}

export const withoutCondition = (conditions: readonly Condition[], type: string): readonly Condition[] =>
  conditions.some((condition) => condition.type === type) ? conditions.filter((condition) => condition.type !== type) : conditions;
