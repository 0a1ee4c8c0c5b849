import type { FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import type { AdmissionAttributes } from '../admission/admission-attributes.ts';
import { prepareForCreate, prepareForSubresourceUpdate, prepareForUpdate } from '../registry/prepare.ts';
import { withDefaults, withEmptyFields, type ServedKind } from '../registry/served-kind.ts';
import type { AllocatedObject, Allocation, StrategyContext, SubresourceStrategy } from '../registry/strategy.ts';
import { validateForCreate, validateForUpdate } from '../registry/validation.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { conformAdmitted } from '../request/body.ts';
import { writeOptions } from '../request/request-options.ts';
import type { RequestContext } from '../request/request-context.ts';
import { restoreManagedFields, restoreUndecodableManagers } from './managed-fields/tracking.ts';
import type { RequestScope } from '../registry/request-scope.ts';

/**
 * The values that the steps of one write share. A write runs these steps in order:
 *
 *   decode -> trackFields -> mutate -> prepare -> validate -> admit -> commit -> encode
 *
 * The object changes its form on the way: `submitted` (decoded, with its managers), `admitted` (after mutating admission), `stored` (as the
 * strategy prepared it, in the storage version of built-in kinds) and `returned` (the same in the served version). A step returns a promise
 * only if a plugin, an allocator or a webhook makes it wait.
 */
export interface WriteOperation extends RequestScope {
  /** The attributes of both admission phases, without the object. */
  readonly attributes: Omit<AdmissionAttributes, 'object'>;
  /** The strategy of the subresource that the write goes through; undefined for the object itself. */
  readonly subresource?: SubresourceStrategy | undefined;
}

/** Returns the operation that creates an object. */
export function newCreateOperation(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): WriteOperation {
  const options = writeOptions(context.request.query, 'CreateOptions');
  return { registry, kind, context, attributes: { operation: 'CREATE', resource: kind.resource, old: undefined, options } };
}

/** An object after its strategy, before validation. */
export interface PreparedObject {
  readonly stored: KubeObject;
  readonly returned: KubeObject;
  readonly strategyContext: StrategyContext;
  /** Writes to commit with the object. */
  readonly allocation: Allocation | undefined;
}

/** Runs mutating admission. @throws StatusError of the first denial */
export function mutate(operation: WriteOperation, submitted: KubeObject): KubeObject | Promise<KubeObject> {
  const { registry, kind, context, attributes } = operation;
  if (!registry.admission.mutates(attributes.operation, kind.resource, context.request.subresource)) return submitted;
  const mutated = registry.admission.mutate(context, { ...attributes, object: submitted });
  return mutated instanceof Promise
    ? mutated.then((object) => conformMutated(kind, object, submitted))
    : conformMutated(kind, mutated, submitted);
}

function conformMutated(kind: ServedKind, mutated: KubeObject, submitted: KubeObject): KubeObject {
  if (mutated === submitted) return submitted;
  return withDefaults(kind, restoreUndecodableManagers(conformAdmitted(mutated, submitted, kind), submitted));
}

/** Prepares a new object: server-owned fields with a new uid, the strategy's changes, allocations. */
export function prepareNew({ registry, kind, context }: WriteOperation, admitted: KubeObject): PreparedObject | Promise<PreparedObject> {
  const strategyContext = newStrategyContext(context);
  const uid = registry.random.uuid();
  const created = withEmptyFields(kind, prepareForCreate(kind, kind.conversion?.toStored(admitted) ?? admitted, uid, strategyContext));
  const finish = (allocated: AllocatedObject | undefined): PreparedObject => {
    const stored = restoreManagedFields(allocated?.object ?? created, admitted, undefined);
    return { stored, returned: toServedVersion(kind, stored), strategyContext, allocation: allocated?.reservation };
  };
  const allocated = kind.strategy.allocate?.(created, undefined, strategyContext);
  return allocated instanceof Promise ? allocated.then(finish) : finish(allocated);
}

/** Prepares an update of `old`. An update through a subresource allocates nothing. */
export function prepareExisting(
  { kind, context, subresource }: WriteOperation,
  admitted: KubeObject,
  old: KubeObject,
): PreparedObject | Promise<PreparedObject> {
  const strategyContext = newStrategyContext(context);
  const converted = withEmptyFields(kind, kind.conversion?.toStored(admitted) ?? admitted);
  const updated =
    subresource === undefined
      ? prepareForUpdate(kind, converted, old, strategyContext)
      : prepareForSubresourceUpdate(kind, subresource, converted, old, strategyContext);
  const finish = (allocated: AllocatedObject | undefined): PreparedObject => {
    const stored = restoreManagedFields(allocated?.object ?? updated, admitted, old);
    return { stored, returned: toServedVersion(kind, stored), strategyContext, allocation: allocated?.reservation };
  };
  const allocated = subresource === undefined ? kind.strategy.allocate?.(updated, old, strategyContext) : undefined;
  return allocated instanceof Promise ? allocated.then(finish) : finish(allocated);
}

/** Converts a stored object of a built-in kind to the served version. */
export function toServedVersion({ conversion }: ServedKind, stored: KubeObject): KubeObject {
  return conversion?.fromStored(stored) ?? stored;
}

/** Validates a new object. @throws StatusError Invalid */
export function validateNew(operation: WriteOperation, name: string, prepared: PreparedObject): void {
  const { kind, context } = operation;
  const { stored, returned, strategyContext } = prepared;
  throwIfInvalid(operation, name, () => [
    ...validateForCreate(kind, returned, context.request.body),
    ...(kind.strategy.validate?.(stored, strategyContext) ?? []),
  ]);
}

/** The current object in both versions that an update compares with. */
export interface ExistingObject {
  /** In the version of `PreparedObject.stored`. */
  readonly stored: KubeObject;
  /** In the served version. */
  readonly returned: KubeObject;
}

/** Validates an update. An update through a subresource does not call the kind's strategy. @throws StatusError Invalid */
export function validateExisting(operation: WriteOperation, prepared: PreparedObject, old: ExistingObject): void {
  const { kind, context, subresource } = operation;
  const { stored, returned, strategyContext } = prepared;
  const { name, subresource: subresourceName, body } = context.request;
  throwIfInvalid(operation, name, () => [
    ...(subresource?.validate?.(stored, old.stored, strategyContext) ??
      validateForUpdate(kind, returned, old.returned, subresourceName, body)),
    ...(subresource === undefined ? (kind.strategy.validateUpdate?.(stored, old.stored, strategyContext) ?? []) : []),
  ]);
}

/** Runs validating admission. @throws StatusError of the first denial */
export function admit({ registry, context, attributes }: WriteOperation, { returned }: PreparedObject): void | Promise<void> {
  return registry.admission.validate(context, { ...attributes, object: returned });
}

/** Runs validation in its span. @throws StatusError Invalid */
export function throwIfInvalid(
  { kind, context }: Pick<RequestScope, 'kind' | 'context'>,
  name: string,
  validate: () => readonly FieldError[],
): void {
  const span = context.startChildSpan('validation');
  const errors = validate();
  span?.end();
  if (errors.length > 0) throw invalidStatus({ group: kind.gvk.group, kind: kind.gvk.kind, name }, errors);
}

export function newStrategyContext(context: RequestContext): StrategyContext {
  const { identity, sourceAddress } = context.request;
  return {
    now: context.now,
    identity,
    ...(sourceAddress !== undefined && { sourceAddress }),
    dryRun: context.dryRun,
    takenReservations: context.takenReservations,
    warn: (message) => context.warn(message),
  };
}
