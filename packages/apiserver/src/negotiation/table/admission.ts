import type {
  MutatingAdmissionPolicyBinding,
  MutatingWebhookConfiguration,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '@oarlock/api/types/admissionregistration-v1';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import { ageOf, nameOf, none, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

export const webhooksPrinter: Printer<MutatingWebhookConfiguration> = {
  columns: columnsOf('Name', { name: 'Webhooks', type: 'integer', about: 'How many webhooks it has.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.webhooks?.length ?? 0, ageOf(object, now)],
};

interface Policy {
  readonly spec?: {
    readonly validations?: readonly unknown[];
    readonly mutations?: readonly unknown[];
    readonly paramKind?: { readonly apiVersion?: string; readonly kind?: string };
  };
}
const policyPrinter = (name: 'Validations' | 'Mutations'): Printer<ValidatingAdmissionPolicy> => ({
  columns: columnsOf(
    'Name',
    { name, type: 'integer', about: 'How many expressions it has.' },
    { name: 'ParamKind', about: 'The kind of its parameters.' },
    'Age',
  ),
  cells(object, now) {
    const { spec } = object as Policy;
    const param = spec?.paramKind;
    return [
      nameOf(object),
      (name === 'Validations' ? spec?.validations : spec?.mutations)?.length ?? 0,
      param === undefined ? unset : `${param.apiVersion ?? ''}/${param.kind ?? ''}`,
      ageOf(object, now),
    ];
  },
});
export const validatingPolicyPrinter = policyPrinter('Validations');
export const mutatingPolicyPrinter = policyPrinter('Mutations');

export const policyBindingPrinter: Printer<ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding> = {
  columns: columnsOf(
    'Name',
    { name: 'PolicyName', about: 'The policy that it applies.' },
    { name: 'ParamRef', about: 'Where its parameters are.' },
    'Age',
  ),
  cells(object, now) {
    const param = object.spec?.paramRef;
    const where =
      param === undefined
        ? unset
        : param.name
          ? `${param.namespace ? `${param.namespace}/` : '*/'}${param.name}`
          : `${param.namespace ? `${param.namespace}/` : '*/'}*`;
    return [nameOf(object), object.spec?.policyName ?? '', where, ageOf(object, now)];
  },
};

export const flowSchemaPrinter: Printer<FlowSchema> = {
  columns: columnsOf(
    'Name',
    { name: 'PriorityLevel', about: 'The level its requests are on.' },
    { name: 'MatchingPrecedence', type: 'integer', about: 'Lower ones are tried first.' },
    { name: 'DistinguisherMethod', about: 'What tells its flows apart.' },
    'Age',
    { name: 'MissingPL', about: 'Whether its level is missing.' },
  ),
  cells(object, now) {
    const dangling = object.status?.conditions?.find(({ type }) => type === 'Dangling')?.status ?? '?';
    return [
      nameOf(object),
      object.spec?.priorityLevelConfiguration?.name ?? none,
      object.spec?.matchingPrecedence ?? 0,
      object.spec?.distinguisherMethod?.type ?? none,
      ageOf(object, now),
      dangling,
    ];
  },
};

export const priorityLevelPrinter: Printer<PriorityLevelConfiguration> = {
  columns: columnsOf(
    'Name',
    { name: 'Type', about: 'Limited or Exempt.' },
    { name: 'NominalConcurrencyShares', about: 'Its share of the places.' },
    { name: 'Queues', about: 'How many queues it has.' },
    { name: 'HandSize', about: 'Queues that one flow is dealt.' },
    { name: 'QueueLengthLimit', about: 'Requests that one queue holds.' },
    'Age',
  ),
  cells(object, now) {
    const { spec } = object;
    const queuing = spec?.limited?.limitResponse?.queuing;
    const shares = spec?.limited?.nominalConcurrencyShares ?? spec?.exempt?.nominalConcurrencyShares;
    return [
      nameOf(object),
      spec?.type ?? '',
      shares ?? none,
      queuing?.queues ?? none,
      queuing?.handSize ?? none,
      queuing?.queueLengthLimit ?? none,
      ageOf(object, now),
    ];
  },
};

/** `Local`, or where requests go on; and whether they can, or why not. */
export const apiServicePrinter: Printer<APIService> = {
  columns: columnsOf(
    'Name',
    { name: 'Service', about: 'The Service of the server that serves it; Local for this one.' },
    { name: 'Available', about: 'Whether requests for it can be served.' },
    'Age',
  ),
  cells(object, now) {
    const { service } = object.spec ?? {};
    const available = object.status?.conditions?.find(({ type }) => type === 'Available');
    return [
      nameOf(object),
      service === undefined ? 'Local' : `${service.namespace ?? ''}/${service.name ?? ''}`,
      available === undefined
        ? 'Unknown'
        : available.status === 'True' || !available.reason
          ? available.status
          : `${available.status} (${available.reason})`,
      ageOf(object, now),
    ];
  },
};
