import type { ValidationRule } from '../rule-samples.ts';

const kind = 'Job';
const uidLabel = 'batch.kubernetes.io/controller-uid';
const labels = { 'controller-uid': 'u', 'job-name': 'x', [uidLabel]: 'u', 'batch.kubernetes.io/job-name': 'x' };
const generated = (changed: Readonly<Record<string, string | undefined>>, matchLabels: object = { app: undefined, [uidLabel]: 'u' }) => ({
  spec: {
    manualSelector: undefined,
    selector: { matchLabels },
    template: { metadata: { labels: { app: undefined, ...labels, ...changed } } },
  },
});
const suspended = (spec: object) => ({
  spec: { template: { spec: { initContainers: [{ name: 'i', image: 'i', ...spec }] } } },
});

/** Rules of generated selectors, and of templates of suspended Jobs. */
export const jobRules: readonly ValidationRule[] = [
  { rule: 'batch.validateGeneratedSelector', kind, fields: generated({}), errors: [] },
  {
    rule: 'batch.validateGeneratedSelector: labels of another Job',
    kind,
    fields: generated({ 'controller-uid': 'other', 'job-name': 'other' }),
    errors: [
      'spec.template.metadata.labels[controller-uid]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"other","job-name":"other"}: must be \'u\'',
      'spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"other","job-name":"other"}: must be \'x\'',
    ],
  },
  {
    rule: 'batch.validateGeneratedSelector: an absent label',
    kind,
    fields: generated({ 'job-name': undefined }),
    errors: ["spec.template.metadata.labels[job-name]: Required value: must be 'x'"],
  },
  {
    rule: 'batch.validateGeneratedSelector: the selector of another Job',
    kind,
    fields: generated({ [uidLabel]: 'other' }, { app: undefined, [uidLabel]: 'other' }),
    errors: [
      'spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: Invalid value: …',
      'spec.selector: Invalid value: {"matchLabels":{"batch.kubernetes.io/controller-uid":"other"}}: `selector` not auto-generated',
    ],
  },
  {
    rule: 'batch.validatePodResourceUpdatesOnly: init containers of a suspended Job',
    kind,
    fields: suspended({ resources: { requests: { cpu: '2' } } }),
    old: suspended({ resources: { requests: { cpu: '1' } } }),
    errors: [],
  },
  {
    rule: 'batch.validatePodResourceUpdatesOnly: the image of an init container',
    kind,
    fields: suspended({ image: 'j' }),
    old: suspended({}),
    errors: ['spec.template: Invalid value: …'],
  },
];
