package main

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Who may do what, asked in each of the four ways.
func reviews(j *journey) {
	_, err := j.kube.RbacV1().Roles(j.namespace).Create(j, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	j.must(err)
	_, err = j.kube.RbacV1().RoleBindings(j.namespace).Create(j, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "ann"}},
	}, metav1.CreateOptions{})
	j.must(err)
	may := func(name string) bool {
		review, err := j.kube.AuthorizationV1().SubjectAccessReviews().Create(j, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: j.namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: name,
			}},
		}, metav1.CreateOptions{})
		j.must(err)
		j.that(!review.Status.Denied, "nobody denies")
		return review.Status.Allowed
	}
	j.until("ann may read one", func() bool { return may("one") })
	j.that(!may("two"), "ann may read two")
	local, err := j.kube.AuthorizationV1().LocalSubjectAccessReviews(j.namespace).Create(j, &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: j.namespace, Verb: "get", Resource: "secrets", Name: "one",
		}},
	}, metav1.CreateOptions{})
	j.must(err)
	j.that(local.Status.Allowed && strings.Contains(local.Status.Reason, `RBAC: allowed by RoleBinding "reader/`+j.namespace+`" of Role "reader" to User "ann"`), "the reason is %q", local.Status.Reason)

	config := rest.CopyConfig(j.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ann", Groups: []string{"readers"}, Extra: map[string][]string{"Some-Scope": {"a", "b"}}}
	ann, err := kubernetes.NewForConfig(config)
	j.must(err)
	_, err = ann.CoreV1().Secrets(j.namespace).Get(j, "one", metav1.GetOptions{})
	j.refused("a secret that is not", err, apierrors.IsNotFound, `secrets "one" not found`)
	rules, err := ann.AuthorizationV1().SelfSubjectRulesReviews().Create(j, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: j.namespace},
	}, metav1.CreateOptions{})
	j.must(err)
	found := false
	for _, rule := range rules.Status.ResourceRules {
		found = found || len(rule.ResourceNames) == 1 && rule.ResourceNames[0] == "one"
	}
	j.that(found && !rules.Status.Incomplete, "ann's rules are %v", rules.Status)
	self, err := ann.AuthenticationV1().SelfSubjectReviews().Create(j, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	j.must(err)
	j.equal("who ann is", self.Status.UserInfo, authenticationv1.UserInfo{
		Username: "ann", Groups: []string{"readers", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"some-scope": {"a", "b"}},
	})
	_, err = j.kube.AuthorizationV1().SubjectAccessReviews().Create(j, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
	j.refused("a review of nothing", err, apierrors.IsInvalid, "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified")
}

// Tokens of service accounts, bound to an object and for an audience.
func tokens(j *journey) {
	accounts := j.kube.CoreV1().ServiceAccounts(j.namespace)
	account, err := accounts.Create(j, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{})
	j.must(err)
	secret, err := j.kube.CoreV1().Secrets(j.namespace).Create(j, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{})
	j.must(err)
	hour := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &hour,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "bound", UID: secret.UID},
	}}
	given, err := accounts.CreateToken(j, "worker", request, metav1.CreateOptions{})
	j.must(err)
	j.that(len(given.Spec.Audiences) > 0 && !given.Status.ExpirationTimestamp.IsZero(), "the token is for %v", given.Spec)
	review := func() authenticationv1.TokenReviewStatus {
		review, err := j.kube.AuthenticationV1().TokenReviews().Create(j, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: given.Status.Token},
		}, metav1.CreateOptions{})
		j.must(err)
		return review.Status
	}
	status := review()
	j.that(status.Authenticated, "the token is not known: %s", status.Error)
	j.equal("whose it is", status.User.Username, "system:serviceaccount:"+j.namespace+":worker")
	j.equal("their uid", status.User.UID, string(account.UID))
	config := rest.AnonymousClientConfig(j.config)
	config.BearerToken = given.Status.Token
	worker, err := kubernetes.NewForConfig(config)
	j.must(err)
	_, err = worker.CoreV1().Pods(j.namespace).List(j, metav1.ListOptions{})
	j.refused("what the worker may not", err, apierrors.IsForbidden, `User "system:serviceaccount:`+j.namespace+`:worker" cannot list resource "pods"`)
	j.must(j.kube.CoreV1().Secrets(j.namespace).Delete(j, "bound", metav1.DeleteOptions{}))
	j.until("the token ends with its object", func() bool { return !review().Authenticated })
	short := int64(5)
	request.Spec.ExpirationSeconds = &short
	_, err = accounts.CreateToken(j, "worker", request, metav1.CreateOptions{})
	j.refused("a token of five seconds", err, apierrors.IsInvalid, "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes")
}
