import type { Taint, Toleration } from '@oarlock/api/types/core-v1';

const numeric = /^-?(0|[1-9]\d*)$/;

/** Kubernetes' rule, with the Gt and Lt operators of KEP-5471. */
export function tolerates({ key = '', operator, value = '', effect = '' }: Toleration, taint: Taint): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  if (key !== '' && key !== taint.key) return false;
  switch (operator ?? '') {
    case '':
    case 'Equal':
      return value === (taint.value ?? '');
    case 'Exists':
      return true;
    case 'Gt':
    case 'Lt': {
      const own = taint.value ?? '';
      if (!numeric.test(own) || !numeric.test(value)) return false;
      return operator === 'Gt' ? BigInt(own) > BigInt(value) : BigInt(own) < BigInt(value);
    }
    default:
      return false;
  }
}

export const untolerated = (
  taints: readonly Taint[] | undefined,
  tolerations: readonly Toleration[],
  effects: ReadonlySet<string>,
): Taint | undefined =>
  taints?.find((taint) => effects.has(taint.effect) && !tolerations.some((toleration) => tolerates(toleration, taint)));
