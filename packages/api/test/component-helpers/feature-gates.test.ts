import {
  currentVersion,
  emulatedVersions,
  featureFaults,
  FeatureGates,
  featureGatesAt,
  featureWarnings,
  isSwitchable,
  parseFeatureGates,
} from '@oarlock/api/component-helpers/feature-gates';
import { describe, expect, it } from 'vitest';

const faultsOf = (featureGates: Readonly<Record<string, boolean>>, emulationVersion?: string) =>
  featureFaults({ featureGates, emulationVersion }).map(({ gate, message }) => `${gate}: ${message}`);

describe('the list of feature gates', () => {
  it('is in the order of names, and the stages of a gate in the order of versions', () => {
    for (const version of emulatedVersions) {
      const names = featureGatesAt(version).map(({ name }) => name);
      expect(names).toEqual([...new Set(names)].sort());
    }
  });

  it.each([
    ['HostnameOverride', '1.36', 'BETA', true],
    ['HostnameOverride', '1.34', 'ALPHA', false],
    ['SidecarContainers', '1.36', 'GA', true],
    ['KMSv1', '1.36', 'DEPRECATED', false],
    ['DRAAdminAccess', '1.35', 'BETA', true],
    ['MaxUnavailableStatefulSet', '1.36', 'BETA', false],
  ])('%s at %s is %s with the default %s', (name, version, stage, value) => {
    expect(featureGatesAt(version).find((gate) => gate.name === name)).toMatchObject({ stage, default: value });
  });

  it('has no gate of a later version', () => {
    expect(featureGatesAt('1.35').some(({ name }) => name === 'PodsAPI')).toBe(false);
    expect(featureGatesAt(currentVersion).some(({ name }) => name === 'PodsAPI')).toBe(true);
  });
});

describe('the faults of settings', () => {
  it.each([
    [{ NoSuchGate: true }, undefined, 'NoSuchGate: unrecognized feature gate: NoSuchGate'],
    [
      { SidecarContainers: false },
      undefined,
      'SidecarContainers: cannot set feature gate SidecarContainers to false, feature is locked to true',
    ],
    [{ KubeletPSI: false }, undefined, 'KubeletPSI: cannot set feature gate KubeletPSI to false, feature is locked to true'],
    [
      { StaleControllerConsistencyJob: true },
      '1.35',
      'StaleControllerConsistencyJob: cannot set feature gate StaleControllerConsistencyJob to true, feature is PreAlpha at emulated version 1.35',
    ],
    [
      { GangScheduling: true },
      undefined,
      'GangScheduling: cannot set feature gate GangScheduling to true: Oarlock implements the feature only with the value false, its default in Kubernetes 1.36',
    ],
    [
      { AllAlpha: true },
      undefined,
      'AllAlpha: cannot set feature gate AllAlpha to true: Oarlock does not implement both values of all gates of the stage',
    ],
  ])('reports %o at %s', (gates, version, message) => {
    expect(faultsOf(gates, version)).toEqual([message]);
  });

  it('accepts both values of a gate that Oarlock switches, and the value of a fixed gate', () => {
    for (const value of [true, false]) expect(faultsOf({ HostnameOverride: value })).toEqual([]);
    expect(faultsOf({ GangScheduling: false, SidecarContainers: true })).toEqual([]);
  });

  it('accepts that a dependent gate is off only if its parent is off', () => {
    const gate = 'RestartAllContainersOnContainerExits';
    expect(faultsOf({ [gate]: false })).toHaveLength(1);
    expect(faultsOf({ [gate]: false, ContainerRestartRules: false })).toEqual([]);
    const off = new FeatureGates({ featureGates: { ContainerRestartRules: false } });
    expect(off.all().find(({ name }) => name === gate)?.enabled).toBe(false);
  });

  it('warns about gates that a later version removes', () => {
    expect(featureWarnings({ featureGates: { SidecarContainers: true, KMSv1: false, HostnameOverride: true } })).toEqual([
      'Setting GA feature gate SidecarContainers=true. It will be removed in a future release.',
      'Setting deprecated feature gate KMSv1=false. It will be removed in a future release.',
    ]);
  });
});

it('warns about the gates that do not follow an emulated version', () => {
  const [warning, ...others] = featureWarnings({ emulationVersion: '1.35' });
  expect(others).toEqual([]);
  expect(warning).toMatch(
    /^emulationVersion 1\.35: Oarlock does not switch \d+ feature gates, which keep their defaults of 1\.36: .*\bMutatingAdmissionPolicy\b/,
  );
  expect(featureWarnings({ emulationVersion: '1.36' })).toEqual([]);
});

describe('the values of gates', () => {
  it('are the defaults of the emulated version, and the settings', () => {
    expect(new FeatureGates().enabled('HostnameOverride')).toBe(true);
    expect(new FeatureGates({ emulationVersion: '1.34' }).enabled('HostnameOverride')).toBe(false);
    expect(new FeatureGates({ emulationVersion: '1.34', featureGates: { HostnameOverride: true } }).enabled('HostnameOverride')).toBe(true);
    expect(new FeatureGates({ featureGates: { HostnameOverride: false } }).enabled('HostnameOverride')).toBe(false);
  });

  it('of fixed gates are those of the current version, which are listed if an emulated version has others', () => {
    expect(new FeatureGates().unfollowed()).toEqual([]);
    const unfollowed = new FeatureGates({ emulationVersion: '1.35' }).unfollowed();
    expect(unfollowed).toContain('MutatingAdmissionPolicy');
    expect(unfollowed.filter(isSwitchable)).toEqual([]);
  });
});

describe('the form of --feature-gates', () => {
  it('is a list of names and boolean values', () => {
    expect(parseFeatureGates('A=true, B=F,')).toEqual({ A: true, B: false });
  });

  it.each([
    ['A', 'missing bool value for A'],
    ['A=maybe', 'invalid value of A=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax'],
  ])('%s is rejected: %s', (text, message) => {
    expect(() => parseFeatureGates(text)).toThrow(message);
  });
});
