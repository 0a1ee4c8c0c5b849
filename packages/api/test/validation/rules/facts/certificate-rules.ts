import type { ValidationRule } from '../rule-samples.ts';

const kind = 'CertificateSigningRequest';
const approved = { type: 'Approved', status: 'True' };
const denied = { type: 'Denied', status: 'True' };
const failed = { type: 'Failed', status: 'True' };
const withConditions = (...conditions: readonly object[]) => ({ status: { conditions } });
const pem = (text: string) => Buffer.from(text).toString('base64');

/** Rules of conditions and certificates, which updates of the status and of the approval have. */
export const certificateRules: readonly ValidationRule[] = [
  {
    rule: 'certificates.validateCertificateSigningRequestUpdate: the status adds an approval',
    kind,
    subresource: 'status',
    fields: withConditions(approved, failed),
    old: {},
    errors: ['status.conditions: Forbidden: updates may not add a condition of type "Approved"'],
  },
  {
    rule: 'certificates.validateCertificateSigningRequestUpdate: the status removes conditions',
    kind,
    subresource: 'status',
    fields: withConditions(),
    old: withConditions(denied, failed),
    errors: [
      'status.conditions: Forbidden: updates may not remove a condition of type "Denied"',
      'status.conditions: Forbidden: updates may not remove a condition of type "Failed"',
    ],
  },
  {
    rule: 'certificates.validateCertificateSigningRequestUpdate: the approval removes conditions',
    kind,
    subresource: 'approval',
    fields: withConditions({ type: 'Other', status: 'Unknown' }),
    old: withConditions(approved, failed),
    errors: [
      'status.conditions: Forbidden: updates may not remove a condition of type "Approved"',
      'status.conditions: Forbidden: updates may not remove a condition of type "Failed"',
    ],
  },
  {
    rule: 'certificates.validateCertificateSigningRequestUpdate: the approval changes a reason',
    kind,
    subresource: 'approval',
    fields: withConditions({ ...approved, reason: 'New' }),
    old: withConditions({ ...approved, reason: 'Old' }),
    errors: [],
  },
  {
    rule: 'certificates.validateConditions: approved and denied',
    kind,
    subresource: 'approval',
    fields: withConditions(approved, denied),
    old: withConditions(approved),
    errors: ['status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'],
  },
  {
    rule: 'certificates.validateConditions: approved and denied in the stored object',
    kind,
    subresource: 'status',
    fields: withConditions(approved, denied, failed),
    old: withConditions(approved, denied),
    errors: [],
  },
  {
    rule: 'certificates.validateConditions: types and statuses',
    kind,
    subresource: 'approval',
    fields: withConditions(
      { type: '', status: 'True' },
      { type: 'A', status: '' },
      { type: 'B', status: 'Maybe' },
      { type: 'Failed', status: 'False' },
    ),
    old: {},
    errors: [
      'status.conditions[0].type: Required value',
      'status.conditions[1].status: Required value',
      'status.conditions[2].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
      'status.conditions[3].status: Unsupported value: "False": supported values: "True"',
    ],
  },
  {
    rule: 'certificates.validateConditions: a repeated type',
    kind,
    subresource: 'status',
    fields: withConditions(failed, failed),
    old: {},
    errors: ['status.conditions[1].type: Duplicate value: "Failed"'],
  },
  {
    rule: 'certificates.validateConditions: a repeated type in the stored object',
    kind,
    subresource: 'status',
    fields: withConditions(failed, failed, { type: '', status: 'True' }),
    old: withConditions(failed, failed, { type: '', status: 'True' }),
    errors: [],
  },
  {
    rule: 'certificates.validateCertificate: no certificate',
    kind,
    subresource: 'status',
    fields: { status: { certificate: pem('text') } },
    old: {},
    errors: ['status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'],
  },
  {
    rule: 'certificates.validateCertificate: headers',
    kind,
    subresource: 'status',
    fields: { status: { certificate: pem('-----BEGIN CERTIFICATE-----\na: b\n\neA==\n-----END CERTIFICATE-----\n') } },
    old: {},
    errors: ['status.certificate: Invalid value: "<certificate data>": no PEM block headers are permitted'],
  },
  {
    rule: 'certificates.validateCertificateSigningRequestUpdate: a second certificate',
    kind,
    subresource: 'status',
    fields: { status: {} },
    old: { status: { certificate: pem('text') } },
    errors: ['status.certificate: Forbidden: updates may not modify existing certificate content'],
  },
];
