import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { certificateRules } from './facts/certificate-rules.ts';
import { claimRules } from './facts/claim-rules.ts';
import { immutableRules } from './facts/immutable-rules.ts';
import { jobRules } from './facts/job-rules.ts';
import { missingRules } from './facts/missing-rules.ts';
import { otherRules } from './facts/other-rules.ts';
import { podCertificateRules } from './facts/pod-certificate-rules.ts';
import { podRules } from './facts/pod-rules.ts';
import { statusRules } from './facts/status-rules.ts';
import { workloadRules } from './facts/workload-rules.ts';
import { errorsOf, samples } from './rule-samples.ts';

const rules = [
  ...workloadRules,
  ...podRules,
  ...otherRules,
  ...certificateRules,
  ...claimRules,
  ...jobRules,
  ...statusRules,
  ...immutableRules,
  ...podCertificateRules,
];
const withoutEnd = (line: string) => line.replace(/…$/, '');

describe('validation rules of 1.36', () => {
  let implemented = 0;

  afterAll(() =>
    console.log(`validation rules: ${String(implemented)} implemented of ${String(rules.length + missingRules.length)} listed`),
  );

  it.each(Object.keys(samples))('accept the sample of %s', (kind) => {
    expect(errorsOf({ kind, fields: {} })).toEqual([]);
  });

  it.each(rules.map((rule) => [rule.rule, rule] as const))('%s', (_, rule) => {
    const errors = errorsOf(rule);
    expect(errors.map((line, i) => (rule.errors[i]?.endsWith('…') ? line.slice(0, rule.errors[i].length - 1) : line))).toEqual(
      rule.errors.map(withoutEnd),
    );
    implemented++;
  });

  it('that are missing are in docs/conformance.md', () => {
    const text = readFileSync(new URL('../../../../../docs/conformance.md', import.meta.url), 'utf8');
    expect(missingRules.filter((rule) => !text.includes(rule))).toEqual([]);
  });
});
