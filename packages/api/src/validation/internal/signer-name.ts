import { invalid, required, tooLong } from '../../field/field-error.ts';
import { isDns1123Label, isDns1123Subdomain } from '../../values/names.ts';
import type { Errors } from './checks.ts';

const maxDomainLength = 253;
/** The length of a DNS label, a dot and a DNS subdomain. */
const maxPathLength = 253 + 63 + 1;

/** Validates the name of a signer, `example.com/name` (ValidateSignerName). */
export function validateSignerName(errors: Errors, path: string, name: string): void {
  if (name === '') {
    errors.push(required(path));
    return;
  }
  const segments = name.split('/');
  const [domain = '', rest = ''] = segments;
  if (segments.length !== 2) {
    errors.push(invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"));
    return;
  }
  const addLabelErrors = (text: string, rule: (label: string) => readonly string[]) => {
    const label = text.split('.').find((part) => rule(part).length > 0);
    for (const error of label === undefined ? [] : rule(label))
      errors.push(invalid(path, text, `validating label ${JSON.stringify(label)}: ${error}`));
  };
  if (domain.length > maxDomainLength) errors.push(tooLong(path, maxDomainLength));
  addLabelErrors(domain, isDns1123Label);
  if (!domain.includes('.')) errors.push(invalid(path, domain, 'should be a domain with at least two segments separated by dots'));
  addLabelErrors(rest, isDns1123Subdomain);
  if (rest.length > maxPathLength) errors.push(tooLong(path, maxPathLength));
  if (name.length > maxDomainLength + maxPathLength + 1) errors.push(tooLong(path, maxDomainLength + maxPathLength + 1));
}
