import { stringify } from 'yaml';

/** Returns the YAML of a value. Strings such as `n` and `on`, which are booleans in the YAML 1.1 of Kubernetes, are quoted. */
export const yamlOf = (value: unknown): string => stringify(value, { version: '1.1', aliasDuplicateObjects: false });
