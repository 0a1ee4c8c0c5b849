import type { Operation } from './history.ts';

/** The state of one object: absent, or a revision with a value. */
export type ObjectState = { readonly revision: number; readonly value: string } | undefined;

/**
 * Returns the states in which the object may be after the operation took effect in `state`: none if the output is impossible in that state, several
 * if the outcome is unknown. The sequential specification of one Kubernetes object with resourceVersion preconditions.
 */
export function step(state: ObjectState, { input, output }: Operation): readonly ObjectState[] {
  switch (input.verb) {
    case 'get':
      return stepGet(state, output);
    case 'create':
      return stepCreate(state, input.value, output);
    case 'update':
      return stepUpdate(state, input, output);
    case 'delete':
      return stepDelete(state, input.ifRevision, output);
  }
}

function stepGet(state: ObjectState, output: Operation['output']): readonly ObjectState[] {
  if (output.result === 'unknown') return [state];
  if (output.result === 'not-found') return state === undefined ? [state] : [];
  if (output.result !== 'ok' || state === undefined) return [];
  return state.revision === output.revision && state.value === output.value ? [state] : [];
}

function stepCreate(state: ObjectState, value: string, output: Operation['output']): readonly ObjectState[] {
  // a write whose outcome is unknown has no effect: those with an effect got their revision from the watches
  if (output.result === 'unknown') return [state];
  if (output.result === 'exists') return state === undefined ? [] : [state];
  return output.result === 'ok' && state === undefined && output.revision !== undefined ? [{ revision: output.revision, value }] : [];
}

function stepUpdate(
  state: ObjectState,
  { value, ifRevision }: { readonly value: string; readonly ifRevision: number },
  output: Operation['output'],
): readonly ObjectState[] {
  if (output.result === 'unknown') return [state];
  if (output.result === 'not-found') return state === undefined ? [state] : [];
  if (output.result === 'conflict') return state !== undefined && state.revision !== ifRevision ? [state] : [];
  const applies = output.result === 'ok' && state?.revision === ifRevision && (output.revision ?? 0) > ifRevision;
  return applies ? [{ revision: output.revision ?? 0, value }] : [];
}

function stepDelete(state: ObjectState, ifRevision: number | undefined, output: Operation['output']): readonly ObjectState[] {
  const matches = state !== undefined && (ifRevision === undefined || state.revision === ifRevision);
  // a delete has no value by which a watch could show whether this one took effect: both are possible
  if (output.result === 'unknown') return matches ? [state, undefined] : [state];
  if (output.result === 'not-found') return state === undefined ? [state] : [];
  if (output.result === 'conflict') return state !== undefined && !matches ? [state] : [];
  return output.result === 'ok' && matches ? [undefined] : [];
}
