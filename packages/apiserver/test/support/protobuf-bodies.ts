const bytes = (base64: string) => Buffer.from(base64, 'base64');

/** The body that kubectl 1.33 sends for `create deployment web --image=nginx --replicas=0 --port=80`. */
export const deploymentBytes = bytes(
  'azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50Er8BCiYKA3dlYhIAGgdkZWZhdWx0IgAqADIAOABCAFoKCgNhcHASA3dlYhKGAQgAEgwKCgoDYXBwEgN3ZWIabAocCgASABoAIgAqADIAOABCAFoKCgNhcHASA3dlYhJMEi4KBW5naW54EgVuZ2lueCoAMgoKABAAGFAiACoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA',
);
/** `create quota q1 --hard=cpu=1,memory=1Gi` */
export const quotaBytes = bytes(
  'azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI8ChkKAnExEgAaB2RlZmF1bHQiACoAMgA4AEIAEh0KCgoDY3B1EgMKATEKDwoGbWVtb3J5EgUKAzFHaRoAGgAiAA==',
);
/** `create pdb pdb1 --selector=app=web --min-available=50%` */
export const budgetBytes = bytes(
  'azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSRAobCgRwZGIxEgAaB2RlZmF1bHQiACoAMgA4AEIAEhkKCQgBEAAaAzUwJRIMCgoKA2FwcBIDd2ViGgoIABgAIAAoADAAGgAiAA==',
);
/** `auth can-i list pods` */
export const reviewBytes = bytes(
  'azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSPQoQCgASABoAIgAqADIAOABCABIfCh0KB2RlZmF1bHQSBGxpc3QaACIAKgRwb2RzMgA6ABoICAASABoAIAAaACIA',
);
