/* The runtime of engines from C, without brim: runs the samples of a file. */
#include <brim_rt.h>
#include <stdio.h>

int main(int count, char** words) {
  brim_rt_error error = {BRIM_RT_OK, ""};
  brim_rt_model* model = NULL;
  brim_rt_session* session = NULL;
  double worst = 1;
  if (count != 2 || brim_rt_open(words[1], NULL, &model, &error) ||
      brim_rt_session_create(model, NULL, &session, &error) ||
      brim_rt_verify(session, &worst, &error))
    fprintf(stderr, "%s\n", error.message);
  else
    printf("engine of %s within %.1g\n", brim_rt_metadata(model, "model"), worst);
  brim_rt_session_close(session);
  brim_rt_close(model);
  return error.code;
}
